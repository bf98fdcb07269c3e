package handover

import (
	"context"
	"errors"
	"fmt"
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

// BacklogOptions shape a backlog of pods that fit nowhere when the leader changes.
type BacklogOptions struct {
	// Manager is the path of the manager's binary, and Lease how long its Lease lasts.
	Manager string
	Lease   time.Duration
	// Pods is how many were refused before, in Shapes shapes, and Fresh how many come
	// while nobody leads.
	Pods, Shapes, Fresh int
}

// Backlog is what came of it.
type Backlog struct {
	// Patched is how many of the pods that were refused before have another resource
	// version when the first pod is bound.
	Patched int
	// Bound is how long a pod that fits waited from when the new leader got the Lease.
	Bound time.Duration
}

// RunBacklog kills the leader under a backlog, starts another manager, and looks at how
// long a pod that fits waits from when that one holds the Lease.
func RunBacklog(ctx context.Context, o BacklogOptions) (b Backlog, err error) {
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return b, err
	}
	defer cp.Stop()
	if err := errors.Join(cp.Nodes(ctx, 1, controlplane.NodeOptions{Pods: Places}), operator.Install(ctx, cp)); err != nil {
		return b, err
	}
	if err := operator.ApplyProfile(ctx, cp, profile, v1alpha1.SchedulingProfileSpec{}); err != nil {
		return b, err
	}
	client, err := load.Client(cp.Config())
	if err != nil {
		return b, err
	}
	r := &backlog{options: o, cp: cp, client: client}
	earlier, err := r.start(ctx)
	if err != nil {
		return b, err
	}
	if err := r.refused(ctx); err != nil {
		return b, err
	}
	before, err := r.versions(ctx)
	if err != nil {
		return b, err
	}
	earlier.Kill()
	cp.End(earlier.Process)
	if err := load.Each(ctx, o.Fresh, workers, r.create("fresh", "100")); err != nil {
		return b, err
	}
	if err := r.create("fits", "0")(ctx, 0); err != nil {
		return b, err
	}
	if _, err = r.start(ctx); err != nil {
		return b, err
	}
	if b.Bound, err = r.bound(ctx); err != nil {
		return b, err
	}
	after, err := r.versions(ctx)
	for name, version := range before {
		if after[name] != version {
			b.Patched++
		}
	}
	return b, err
}

// backlog is one run.
type backlog struct {
	options BacklogOptions
	cp      *controlplane.ControlPlane
	client  kubernetes.Interface
}

// start starts a manager, and waits until it is ready.
func (r *backlog) start(ctx context.Context) (*operator.Manager, error) {
	manager, err := operator.Start(ctx, r.cp, r.options.Manager,
		"--leader-elect-lease-duration="+r.options.Lease.String(),
		"--leader-elect-renew-deadline="+(r.options.Lease*2/3).String(),
		"--leader-elect-retry-period="+(r.options.Lease/15).String())
	if err != nil {
		return nil, err
	}
	return manager, manager.Until(ctx, manager.Ready)
}

// create returns what creates the i-th pod of a kind, which asks for so many CPUs and
// i thousandths.
func (r *backlog) create(kind, cpus string) func(context.Context, int) error {
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

// refused creates the pods that fit nowhere, and waits until each of them says so.
func (r *backlog) refused(ctx context.Context) error {
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

func (r *backlog) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "kind=refused"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// versions are the resource versions of the pods that were refused.
func (r *backlog) versions(ctx context.Context) (map[string]string, error) {
	pods, err := r.pods(ctx)
	versions := map[string]string{}
	for i := range pods {
		versions[pods[i].Name] = pods[i].ResourceVersion
	}
	return versions, err
}

// bound waits until the pod that fits is bound, and returns how long that took from when
// its leader got the Lease.
func (r *backlog) bound(ctx context.Context) (time.Duration, error) {
	err := wait.PollUntilContextCancel(ctx, pulse, true, func(ctx context.Context) (bool, error) {
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
