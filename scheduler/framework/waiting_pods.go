package framework

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// WaitingPods are the pods that wait at Permit. All profiles share one, which
// outlives their Generations. It is safe for concurrent use.
type WaitingPods struct {
	// Wait is the WaitFunc of Await, Block by default. It must be set before
	// use.
	Wait WaitFunc

	clock clock.WithDelayedExecution
	mu    sync.Mutex
	pods  map[types.UID]*waitingPod
	// stopErr is the error given to Stop, nil before.
	stopErr error
}

// NewWaitingPods returns an empty set with timeouts on c.
func NewWaitingPods(c clock.WithDelayedExecution) *WaitingPods {
	return &WaitingPods{Wait: Block, clock: c, pods: map[types.UID]*waitingPod{}}
}

// Add makes pod wait for plugins of f, for each plugin in waits up to the given time.
func (w *WaitingPods) Add(f *Framework, pod *v1.Pod, waits map[string]time.Duration) {
	p := &waitingPod{framework: f, pod: pod, pending: map[string]clock.Timer{}, decided: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	for plugin, wait := range waits {
		p.pending[plugin] = w.clock.AfterFunc(wait, func() {
			p.Reject(plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", wait, plugin))
		})
	}
	w.mu.Lock()
	w.pods[pod.UID] = p
	stopErr := w.stopErr
	w.mu.Unlock()
	if stopErr != nil {
		p.decideLocked(fwk.AsStatus(stopErr))
	}
}

// Stop ends the wait of all pods, also of pods that are added later, with the
// error why.
func (w *WaitingPods) Stop(err error) {
	w.mu.Lock()
	w.stopErr = err
	pods := slices.Collect(maps.Values(w.pods))
	w.mu.Unlock()
	for _, p := range pods {
		p.decide(fwk.AsStatus(err))
	}
}

// Has reports whether a pod waits.
func (w *WaitingPods) Has(uid types.UID) bool { return w.Get(uid) != nil }

// Get returns a waiting pod, or nil. One that was rejected, and has not given its node back
// yet, does not wait: a plugin must not count it.
func (w *WaitingPods) Get(uid types.UID) fwk.WaitingPod {
	if p := w.find(uid); p != nil && !p.leaves() {
		return p
	}
	return nil
}

func (w *WaitingPods) find(uid types.UID) *waitingPod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

// Each calls f for every waiting pod, as Get returns it, without holding a lock.
func (w *WaitingPods) Each(f func(fwk.WaitingPod)) {
	w.mu.Lock()
	pods := slices.Collect(maps.Values(w.pods))
	w.mu.Unlock()
	for _, p := range pods {
		if !p.leaves() {
			f(p)
		}
	}
}

// Remove removes a pod for which Await is not called.
func (w *WaitingPods) Remove(uid types.UID) {
	w.mu.Lock()
	p, ok := w.pods[uid]
	delete(w.pods, uid)
	w.mu.Unlock()
	if ok {
		p.stopTimers()
	}
}

// Await blocks until the pod is allowed or rejected, and returns at once for a
// pod that does not wait. If ctx ends first it returns an error. Where the pod is not
// allowed, the caller removes it once it is unreserved.
func (w *WaitingPods) Await(ctx context.Context, uid types.UID) *fwk.Status {
	p := w.find(uid)
	if p == nil {
		return nil
	}
	begin := w.clock.Now()
	if err := w.Wait(ctx, p.decided); err != nil {
		return fwk.AsStatus(fmt.Errorf("waiting on permit for pod: %w", err))
	}
	permitWait.WithLabelValues(p.verdict.Code().String()).Observe(w.clock.Since(begin).Seconds())
	switch {
	case p.verdict.IsSuccess():
		w.Remove(uid)
		return p.verdict
	case p.verdict.IsRejected():
		return p.verdict
	}
	return fwk.AsStatus(fmt.Errorf("waiting on permit for pod: %w", p.verdict.AsError())).WithPlugin(p.verdict.Plugin())
}

// waitingPod is a pod at Permit for plugins of a Framework. It is decided once.
type waitingPod struct {
	framework *Framework
	pod       *v1.Pod
	// decided is closed after verdict is set, which does not change afterwards.
	decided chan struct{}
	verdict *fwk.Status

	mu      sync.Mutex
	pending map[string]clock.Timer
	done    bool
}

var _ fwk.WaitingPod = &waitingPod{}

func (p *waitingPod) GetPod() *v1.Pod { return p.pod }

func (p *waitingPod) GetPendingPlugins() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.pending))
}

// Allow ends the wait for one plugin. After the last one the pod goes on.
func (p *waitingPod) Allow(plugin string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if timer, ok := p.pending[plugin]; ok {
		timer.Stop()
		delete(p.pending, plugin)
	}
	if len(p.pending) == 0 {
		p.decideLocked(nil)
	}
}

// Reject rejects the pod, and reports whether it was undecided before.
func (p *waitingPod) Reject(plugin, message string) bool {
	return p.decide(fwk.NewStatus(fwk.Unschedulable, message).WithPlugin(plugin))
}

// Preempt ends the wait with an error instead of a rejection, so that the pod
// can be tried again at once. It reports whether the pod was undecided before.
func (p *waitingPod) Preempt(plugin, message string) bool {
	return p.decide(fwk.NewStatus(fwk.Error, message).WithPlugin(plugin))
}

func (p *waitingPod) decide(status *fwk.Status) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decideLocked(status)
}

func (p *waitingPod) decideLocked(status *fwk.Status) bool {
	if p.done {
		return false
	}
	p.done = true
	for _, timer := range p.pending {
		timer.Stop()
	}
	p.verdict = status
	close(p.decided)
	return true
}

// leaves says that the pod was not allowed, and reports false for one that is undecided.
func (p *waitingPod) leaves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done && !p.verdict.IsSuccess()
}

// stopTimers stops all timers.
func (p *waitingPod) stopTimers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, timer := range p.pending {
		timer.Stop()
	}
}

// PodsInPreBind are the pods whose PreBind plugins run; a preemption can cancel
// them. All profiles share one. It is safe for concurrent use.
type PodsInPreBind struct {
	mu   sync.Mutex
	pods map[types.UID]*podInPreBind
}

// NewPodsInPreBind returns an empty set.
func NewPodsInPreBind() *PodsInPreBind { return &PodsInPreBind{pods: map[types.UID]*podInPreBind{}} }

type podInPreBind struct {
	mu       sync.Mutex
	cancel   context.CancelCauseFunc
	finished bool
	canceled bool
}

var _ fwk.PodInPreBind = &podInPreBind{}

// CancelPod cancels the pod's PreBind unless it has ended, and reports whether
// the pod is canceled.
func (p *podInPreBind) CancelPod(reason string) bool {
	p.mu.Lock()
	finished := p.finished
	p.canceled = p.canceled || !finished
	p.mu.Unlock()
	if finished {
		return false
	}
	p.cancel(fmt.Errorf("%s", reason))
	return true
}

// MarkPrebound records that PreBind has ended. It reports false if the pod was
// canceled before.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = !p.canceled
	return p.finished
}

func (b *PodsInPreBind) add(uid types.UID, cancel context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods[uid] = &podInPreBind{cancel: cancel}
}

func (b *PodsInPreBind) get(uid types.UID) fwk.PodInPreBind {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.pods[uid]; ok {
		return p
	}
	return nil
}

func (b *PodsInPreBind) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, uid)
}
