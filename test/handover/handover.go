package handover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/history"
	"github.com/berthdev/berth/test/support/load"
)

// Kind is what happens to the leader before a handover.
type Kind string

// The kinds, with the times of a Lease of 15 seconds.
const (
	// Killed: the leader is killed at a random time.
	Killed Kind = "killed"
	// Frozen: the leader is stopped for 20 s, and continues when it has a successor.
	Frozen Kind = "frozen"
	// Partitioned: the leader cannot reach its API server.
	Partitioned Kind = "partitioned"
	// LeaseTaken: another holder is written into the Lease.
	LeaseTaken Kind = "lease taken"
	// Lagging: the leader releases the Lease and ends, and the watches of the follower lag
	// by 10 s: it leads long before it receives what the leader did.
	Lagging Kind = "lagging"
	// Late: the leader's Bindings are delayed, the leader is killed, and they arrive when
	// its successor binds.
	Late Kind = "late"
)

// Kinds are all kinds.
var Kinds = []Kind{Killed, Frozen, Partitioned, LeaseTaken, Lagging, Late}

// Handover is the result of a handover.
type Handover struct {
	Kind Kind
	// Gap is the time from the last bind of the earlier leader to the first of its
	// successor, as observed.
	Gap time.Duration
	// Late is the number of Bindings of the earlier leader that arrived late, and
	// Unschedulable how many of their pods had PodScheduled=False.
	Late, Unschedulable int
}

// HandOver causes a handover of a kind, waits until the successor has bound a pod, and
// starts a new manager in the place of the earlier leader.
func (e *Env) HandOver(ctx context.Context, kind Kind) (h Handover, err error) {
	h.Kind = kind
	ctx, cancel := context.WithTimeoutCause(ctx, 4*e.options.Lease+2*timeout, fmt.Errorf("%s: no successor bound a pod", kind))
	defer cancel()
	if err := errors.Join(e.restartEnded(ctx), e.waitRandomBinds(ctx)); err != nil {
		return h, err
	}
	earlier, later, from := e.leader(), e.follower(), len(e.record.Binds())
	e.leaderIndex = 1 - e.leaderIndex
	switch kind {
	case Killed:
		e.kill(earlier)
		err = e.waitForSuccessor(ctx, from, &h)
	case Frozen:
		err = e.freeze(ctx, earlier, from, &h)
	case Partitioned:
		earlier.proxy.Partition()
		err = errors.Join(e.waitForSuccessor(ctx, from, &h), e.expectEnded(ctx, earlier, timeout))
		earlier.proxy.Heal() // for the next manager of this replica
	case LeaseTaken:
		if err := e.takeLease(ctx); err != nil {
			return h, err
		}
		err = errors.Join(e.expectEnded(ctx, earlier, e.options.Lease), e.waitForSuccessor(ctx, from, &h))
	case Lagging:
		later.proxy.DelayWatches(e.options.Lease * 2 / 3)
		if err := e.waitRandomBinds(ctx); err != nil {
			return h, err
		}
		if err := earlier.manager.Signal(syscall.SIGTERM); err != nil {
			return h, err
		}
		err = errors.Join(e.waitForSuccessor(ctx, from, &h), e.expectEnded(ctx, earlier, timeout))
		later.proxy.DelayWatches(0)
	case Late:
		err = e.delayBindings(ctx, earlier, from, &h)
	default:
		return h, fmt.Errorf("there is no kind %q", kind)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", kind, err)
	}
	return h, e.startManager(ctx, earlier)
}

// waitRandomBinds waits for a random number of binds, so that what follows happens between
// binds.
func (e *Env) waitRandomBinds(ctx context.Context) error {
	n := len(e.record.Binds()) + e.random.IntN(2*podsPerSecond)
	return e.record.Until(ctx, func(binds []history.Bind) bool { return len(binds) >= n })
}

func (e *Env) kill(r *replica) {
	r.manager.Kill()
	e.cp.End(r.manager.Process)
}

// waitForSuccessor waits until a later leader has bound, and records the time without a
// bind.
func (e *Env) waitForSuccessor(ctx context.Context, from int, h *Handover) error {
	return e.record.Until(ctx, func(binds []history.Bind) bool {
		for i := max(from, 1); i < len(binds); i++ {
			if binds[i].Epoch > binds[from-1].Epoch {
				h.Gap = binds[i].Seen.Sub(binds[i-1].Seen)
				return true
			}
		}
		return false
	})
}

// freeze stops the leader for longer than its Lease lasts, and until its successor binds;
// when the leader continues, it must end.
func (e *Env) freeze(ctx context.Context, r *replica, from int, h *Handover) error {
	if err := r.manager.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	thaw := time.After(e.options.Lease * 4 / 3)
	if err := e.waitForSuccessor(ctx, from, h); err != nil {
		return err
	}
	select {
	case <-thaw:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := r.manager.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return e.expectEnded(ctx, r, e.options.Lease)
}

// delayBindings delays the leader's Bindings, kills it, and lets them arrive when its
// successor has begun to bind. All of them must be rejected, since the successor decides
// about their pods again.
func (e *Env) delayBindings(ctx context.Context, r *replica, from int, h *Handover) error {
	arrive, held := make(chan struct{}), make(chan struct{}, Pods)
	r.proxy.SetFaults(func(faultproxy.Binding) *faultproxy.Fault {
		held <- struct{}{}
		return &faultproxy.Fault{Late: arrive, HoldAnswer: arrive}
	})
	for range 1 + e.random.IntN(NodePods/4) {
		select {
		case <-held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	e.kill(r)
	for _, b := range r.proxy.Bindings() {
		pod, err := e.client.CoreV1().Pods(b.Namespace).Get(ctx, b.Pod, metav1.GetOptions{})
		if err == nil && binding.HasPodScheduledFalse(pod) {
			h.Unschedulable++
		}
	}
	if err := e.waitForSuccessor(ctx, from, h); err != nil {
		return err
	}
	close(arrive)
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(r.proxy.Bindings(), func(b faultproxy.Binding) bool { return b.Code == 0 }), nil
	})
	for _, b := range r.proxy.Bindings() {
		h.Late++
		if b.Code == http.StatusCreated {
			err = errors.Join(err, fmt.Errorf("a Binding of pod %s succeeded that arrived after the successor had bound", b.Pod))
		}
	}
	r.proxy.SetFaults(nil)
	return err
}

const (
	// podsPerSecond is how many pods are deleted, and created, per second.
	podsPerSecond = 25
	// fewestBound is the number of bound pods below which none is deleted.
	fewestBound = NodePods / 2
	// workers is the number of workers that create the first pods.
	workers = 8
)

// podStream deletes and creates pods, so that their number stays the same.
type podStream struct {
	client kubernetes.Interface
	record *history.Recorder
	cancel context.CancelFunc
	done   sync.WaitGroup
	err    error
}

// startPodStream starts a stream that runs until stop.
func startPodStream(client kubernetes.Interface, record *history.Recorder) *podStream {
	ctx, end := context.WithCancel(context.Background())
	c := &podStream{client: client, record: record, cancel: end}
	c.done.Go(func() {
		if c.err = c.run(ctx); c.err != nil {
			record.Fail(c.err)
		}
	})
	return c
}

// stop ends the stream, and returns its error.
func (c *podStream) stop() error {
	c.cancel()
	c.done.Wait()
	return c.err
}

func (c *podStream) run(ctx context.Context) error {
	err := load.Each(ctx, Pods, workers, c.create)
	ticker := time.NewTicker(time.Second / podsPerSecond)
	defer ticker.Stop()
	for next := Pods; err == nil; next++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		placed := c.record.BoundPods()
		if len(placed) <= fewestBound {
			continue
		}
		// Not interrupted by ctx: as many pods are created as are deleted.
		first := placed[0]
		err = c.client.CoreV1().Pods(first.Namespace).Delete(context.Background(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		switch {
		case apierrors.IsNotFound(err):
			err = nil // the recorder lags
			continue
		case err == nil:
			err = c.create(context.Background(), next)
		}
	}
	return err
}

// create creates the i-th pod.
func (c *podStream) create(ctx context.Context, i int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("pod-%d", i)},
		Spec: corev1.PodSpec{SchedulerName: profile, Containers: []corev1.Container{{
			Name: "app", Image: "none", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
			},
		}}},
	}
	fixture.AddWorkloadFields(&pod.Spec)
	_, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
