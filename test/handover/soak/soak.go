package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/procs"
)

// testRun is one run.
type testRun struct {
	options options
	out     io.Writer
	began   time.Time

	cp      *controlplane.ControlPlane
	client  kubernetes.Interface
	manager *operator.Manager
	bound   *load.Bound
	// generations are the hashes by generation of all that ran; mu guards them.
	generations map[int64]string
	mu          sync.Mutex
	// total is the number of pods so far, podsPerSecond how many bindAll bound per second.
	total         int
	podsPerSecond float64
	// edits is how often the profile was changed under a stream, invalidEdits how often to
	// a spec that is rejected.
	edits, invalidEdits int
}

func (s *testRun) log(format string, args ...any) {
	fmt.Fprintf(s.out, "soak: %5.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// run starts its own control plane, and stops it at the end.
func run(ctx context.Context, o options, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	s := &testRun{options: o, out: out, began: time.Now(), generations: map[int64]string{}, total: o.pods}
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	s.cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true, KWOK: o.kwok})
	if err != nil {
		return err
	}
	defer s.cp.Stop()
	if err := s.prepare(ctx, path); err != nil {
		return err
	}
	if s.bound, err = load.WatchBound(ctx, s.client, profile); err != nil {
		return err
	}
	defer s.bound.Stop()
	if err := s.bindAll(ctx); err != nil {
		return err
	}
	if o.stream > 0 {
		if err := s.runStreams(ctx); err != nil {
			return err
		}
		s.log("the profile was changed %d times, %d of them to a spec that was rejected", s.edits, s.invalidEdits)
	}
	return s.check(ctx)
}

// prepare creates the nodes, the manager, and a profile that runs.
func (s *testRun) prepare(ctx context.Context, path string) (err error) {
	if s.client, err = load.Client(s.cp.Config()); err != nil {
		return err
	}
	if err := s.cp.Nodes(ctx, s.options.nodes, controlplane.NodeOptions{CPU: fmt.Sprintf("%dm", milliCPU), Pods: podsPerNode}); err != nil {
		return err
	}
	s.log("%d nodes are Ready, KWOK: %t", s.options.nodes, s.options.kwok)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if manager := s.cp.Process("kube-controller-manager"); manager != nil {
		if err := s.waitForServiceAccount(ctx, manager); err != nil {
			return err
		}
	}
	if err := operator.Install(ctx, s.cp); err != nil {
		return err
	}
	if s.manager, err = operator.Start(ctx, s.cp, path); err != nil {
		return err
	}
	if err := s.manager.Until(ctx, s.manager.Ready); err != nil {
		return err
	}
	if err := s.applyProfile(ctx, 0); err != nil {
		return err
	}
	s.log("the manager is ready, and profile %s runs", profile)
	return nil
}

// waitForServiceAccount waits for the account that every pod needs where controllers run.
func (s *testRun) waitForServiceAccount(ctx context.Context, manager *controlplane.Process) error {
	return manager.Until(ctx, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// bindAll creates the pods, changes the profile meanwhile, and waits until all pods are
// bound.
func (s *testRun) bindAll(ctx context.Context) error {
	began := time.Now()
	all := procs.Procs{"manager": s.manager.PID(), "kube-apiserver": s.cp.Process("kube-apiserver").PID()}
	before, err := all.Read()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parallel := []func(context.Context) error{s.createPods, s.swapProfile, s.recordCPUProfile}
	ends := make(chan error, len(parallel))
	for _, do := range parallel {
		go func() {
			err := do(ctx)
			if err != nil {
				cancel(err)
			}
			ends <- err
		}()
	}
	err = s.bound.Until(ctx, s.options.pods, s.cp.Running)
	took := time.Since(began)
	for range parallel {
		err = errors.Join(err, <-ends)
	}
	if err != nil {
		return err
	}
	s.podsPerSecond = float64(s.options.pods) / took.Seconds()
	after, err := all.Settle(ctx, "manager", func(ctx context.Context) (int, error) {
		return load.CountEvents(ctx, s.client, namespace)
	})
	if err != nil {
		return err
	}
	peak, err := procs.Peak(s.manager.PID())
	used, pods := after.Minus(before), float64(s.options.pods)
	s.log("%d pods bound in %.1f s: %.0f a second, creation included; CPU a pod: manager %.2f ms, kube-apiserver %.2f ms; peak of the manager %.0f MiB",
		s.options.pods, took.Seconds(), s.podsPerSecond,
		used["manager"].Seconds()*1000/pods, used["kube-apiserver"].Seconds()*1000/pods, peak)
	return err
}

// recordCPUProfile records a CPU profile if the flag is set.
func (s *testRun) recordCPUProfile(ctx context.Context) error {
	const seconds = 10
	if s.options.profile == "" {
		return nil
	}
	return s.manager.CPUProfile(ctx, seconds, s.options.profile)
}

const (
	// namespace has all pods, and profile schedules them.
	namespace, profile = "soak", "soak"
	// The capacity of a node.
	milliCPU, podsPerNode = 4000, 110
	// fillPercent is how full nodes become with many pods, so that one pod too many is
	// noticed.
	fillPercent = 80
	// replicas is the number of pods of each Deployment but the last.
	replicas = 100
)

// podCPU returns the request of each pod in thousandths of a core. The number of pods of a
// stream is not known: they request so little that nodes run out of pods first.
func (o options) podCPU() int64 {
	if o.stream > 0 || o.churn > 0 {
		return milliCPU / podsPerNode
	}
	return min(1000, int64(milliCPU)*int64(o.nodes)*fillPercent/100/int64(o.pods))
}

// template returns the template of pods with the fields that users write: see
// fixture.AddWorkloadFields.
func (o options) template(app string) corev1.PodTemplateSpec {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(o.podCPU(), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			SchedulerName: profile,
			Containers: []corev1.Container{{
				Name: "app", Image: "none", Resources: corev1.ResourceRequirements{Requests: requests},
			}},
		},
	}
	fixture.AddWorkloadFields(&template.Spec)
	return template
}

// deployment returns the i-th Deployment.
func (o options) deployment(i, pods int) *appsv1.Deployment {
	app := fmt.Sprintf("app-%d", i)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(pods)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: o.template(app),
		},
	}
}

// createPods creates half of the pods by Deployments and the other half one by one.
func (s *testRun) createPods(ctx context.Context) error {
	single, deployed := s.options.pods/2, s.options.pods-s.options.pods/2
	deployments := (deployed + replicas - 1) / replicas
	s.log("%d pods of %dm CPU in %d Deployments, and %d pods by %d workers", deployed, s.options.podCPU(), deployments, single, s.options.workers)
	return load.Each(ctx, deployments+single, s.options.workers, func(ctx context.Context, i int) error {
		if i < deployments {
			d := s.options.deployment(i, min(replicas, deployed-i*replicas))
			_, err := s.client.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
			return err
		}
		return s.create(ctx, fmt.Sprintf("single-%d", i-deployments))
	})
}

// create creates a pod without an owner.
func (s *testRun) create(ctx context.Context, name string) error {
	template := s.options.template("single")
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = name
	_, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}
