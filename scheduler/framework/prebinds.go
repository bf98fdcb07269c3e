package framework

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBinds are the pods whose PreBind plugins are at work; a preemption may
// cancel them. One value serves all profiles.
type PodsInPreBind struct {
	mu   sync.Mutex
	pods map[types.UID]*podInPreBind
}

// NewPreBinds returns an empty set.
func NewPodsInPreBind() *PodsInPreBind { return &PodsInPreBind{pods: map[types.UID]*podInPreBind{}} }

type podInPreBind struct {
	mu       sync.Mutex
	cancel   context.CancelCauseFunc
	finished bool
	canceled bool
}

var _ fwk.PodInPreBind = &podInPreBind{}

// CancelPod cancels the pod's PreBind unless it is over; it reports whether
// the pod is cancelled.
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

// MarkPrebound says that PreBind is over; it reports false when the pod was
// cancelled before.
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
