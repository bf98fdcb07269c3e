package handover

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// BacklogOptions are the options of RunBacklog.
type BacklogOptions struct {
	// Manager is the path of the manager's binary, and Lease the duration of its Lease.
	Manager string
	Lease   time.Duration
	// Pods is the number of unschedulable pods, in Shapes different sizes, and Fresh the
	// number of pods that are created while no process leads.
	Pods, Shapes, Fresh int
	// Released: the earlier leader is terminated and gives its Lease back, instead of being killed.
	Released bool
}

// Backlog is the result of RunBacklog.
type Backlog struct {
	// Patched is how many of the unschedulable pods have another resource version when the
	// first pod is bound.
	Patched int
	// Fenced is how many pods the new leader has fenced.
	Fenced int
	// Bound is the time from the new leader's acquisition of the Lease to the bind of a pod
	// that fits.
	Bound time.Duration
}

// RunBacklog ends the leader while there are many unschedulable pods, starts another
// manager, and measures how long a pod that fits waits for it.
func RunBacklog(ctx context.Context, o BacklogOptions) (b Backlog, err error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return b, err
	}
	defer cp.Stop()
	if err := errors.Join(cp.Nodes(ctx, 1, controlplane.NodeOptions{Pods: NodePods}), operator.Install(ctx, cp)); err != nil {
		return b, err
	}
	if err := operator.ApplyProfile(ctx, cp, profile, v1alpha1.SchedulingProfileSpec{}); err != nil {
		return b, err
	}
	client, err := load.Client(cp.Config())
	if err != nil {
		return b, err
	}
	r := &backlogTest{options: o, cp: cp, client: client}
	earlier, err := r.startManager(ctx)
	if err != nil {
		return b, err
	}
	if err := r.createUnschedulable(ctx); err != nil {
		return b, err
	}
	before, err := r.resourceVersions(ctx)
	if err != nil {
		return b, err
	}
	if !o.Released {
		earlier.Kill()
	}
	cp.End(earlier.Process)
	if err := load.Each(ctx, o.Fresh, workers, r.create("fresh", "100")); err != nil {
		return b, err
	}
	if err := r.create("fits", "0")(ctx, 0); err != nil {
		return b, err
	}
	successor, err := r.startManager(ctx)
	if err != nil {
		return b, err
	}
	if b.Bound, err = r.waitBound(ctx); err != nil {
		return b, err
	}
	if b.Fenced, err = fencedPods(ctx, cp, successor); err != nil {
		return b, err
	}
	after, err := r.resourceVersions(ctx)
	for name, version := range before {
		if after[name] != version {
			b.Patched++
		}
	}
	return b, err
}

type backlogTest struct {
	options BacklogOptions
	cp      *controlplane.ControlPlane
	client  kubernetes.Interface
}

// startManager starts a manager and waits until it is ready.
func (r *backlogTest) startManager(ctx context.Context) (*operator.Manager, error) {
	manager, err := operator.Start(ctx, r.cp, r.options.Manager,
		"--leader-elect-lease-duration="+r.options.Lease.String(),
		"--leader-elect-renew-deadline="+(r.options.Lease*2/3).String(),
		"--leader-elect-retry-period="+(r.options.Lease/15).String())
	if err != nil {
		return nil, err
	}
	return manager, manager.Until(ctx, manager.Ready)
}

// create returns a function that creates the i-th pod of a kind, which requests these CPUs
// and i thousandths.
func (r *backlogTest) create(kind, cpus string) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		cpu := resource.MustParse(cpus)
		cpu.Add(*resource.NewMilliQuantity(int64(i%max(r.options.Shapes, 1)+1), resource.DecimalSI))
		_, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", kind, i), Labels: map[string]string{"kind": kind}},
			Spec: corev1.PodSpec{SchedulerName: profile, Containers: []corev1.Container{{
				Name: "app", Image: "none", Command: []string{"serve"}, Args: []string{"--verbose"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cpu}},
			}}},
		}, metav1.CreateOptions{})
		return err
	}
}

// createUnschedulable creates pods that fit on no node, and waits until their conditions
// say so.
func (r *backlogTest) createUnschedulable(ctx context.Context) error {
	if err := load.Each(ctx, r.options.Pods, 4*workers, r.create("refused", "100")); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		pods, err := r.pods(ctx)
		if err != nil {
			return false, err
		}
		for i := range pods {
			if !binding.HasPodScheduledFalse(&pods[i]) {
				return false, nil
			}
		}
		return true, nil
	})
}

func (r *backlogTest) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "kind=refused"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// resourceVersions returns the resource versions of the unschedulable pods by name.
func (r *backlogTest) resourceVersions(ctx context.Context) (map[string]string, error) {
	pods, err := r.pods(ctx)
	versions := map[string]string{}
	for i := range pods {
		versions[pods[i].Name] = pods[i].ResourceVersion
	}
	return versions, err
}

// fencedPods returns what the metric of the manager says.
func fencedPods(ctx context.Context, cp *controlplane.ControlPlane, m *operator.Manager) (n int, err error) {
	_, text, err := m.Scrape(ctx, cp.Config().BearerToken)
	if err != nil {
		return 0, err
	}
	samples := regexp.MustCompile(`(?m)^berth_handover_fenced_pods\{.*\} (\d+)$`).FindAllSubmatch(text, -1)
	if len(samples) == 0 {
		return 0, errors.New("the manager has no metric of fenced pods")
	}
	for _, sample := range samples {
		one, err := strconv.Atoi(string(sample[1]))
		if err != nil {
			return 0, err
		}
		n += one
	}
	return n, nil
}

// waitBound waits until the pod that fits is bound, and returns the time since the leader
// acquired the Lease.
func (r *backlogTest) waitBound(ctx context.Context) (time.Duration, error) {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		pod, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "fits-0", metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
	now := time.Now()
	if err != nil {
		return 0, err
	}
	lease, err := r.client.CoordinationV1().Leases(operator.Namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	return now.Sub(lease.Spec.AcquireTime.Time), nil
}
