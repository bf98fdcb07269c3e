package simulation

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const observerName = "Observer"

// ObserverArgs are the arguments of Observer.
type ObserverArgs struct {
	metav1.TypeMeta
	// Spec is the number of the spec.
	Spec int `json:"spec"`
}

// DeepCopyObject makes ObserverArgs a runtime.Object.
func (a *ObserverArgs) DeepCopyObject() runtime.Object {
	clone := *a
	return &clone
}

// observer is in every profile, before Probe. It admits every pod and records which spec
// placed it, and what the scheduler knew of the cluster then.
type observer struct {
	instance
	spec int
}

func (sim *simulation) newObserver(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	sim.handle = handle
	sim.openGenerations++
	return &observer{sim.newInstance(observerName), args.(*ObserverArgs).Spec}, nil
}

// Close counts the Generations that are not closed.
func (n *observer) Close() error {
	n.sim.openGenerations--
	return n.instance.Close()
}

// PreFilter records what the scheduler knows: no task has run since UpdateSnapshot. An attempt
// outside the loop is a task that was started right after UpdateSnapshot, with what was known
// then, and so is the part of a group's attempt that decides about it, where a plugin is
// out-of-tree. The members of a group are decided with what was known at the first, or after the
// last other pod that was tried between them.
func (n *observer) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	n.checkOpen("PreFilter")
	n.sim.noteClaims(pod)
	n.sim.noteDeviceClaims(pod)
	group := state.(*framework.CycleState).Group()
	current, seen := n.sim.tasks.current, n.sim.sched.Components().Cache.Snapshot().ResourceVersions()
	first := !current.decides && current.name != loopTask
	current.decides, current.inLoop = true, current.inLoop || group != nil
	if !current.inLoop {
		return nil, nil
	}
	switch {
	case group == nil || group != current.group:
		n.sim.gangs.cycleCount++
		current.group, current.cycle = group, n.sim.gangs.cycleCount
		n.sim.lastCycle = current.cycle
	case seen == current.seen:
		return nil, nil
	default:
		n.sim.count("a gang is decided in slices")
	}
	if !first && (current.name == loopTask || group == nil || seen != current.seen) {
		current.known = n.sim.known()
	}
	current.seen = seen
	for t := current.parent; t != nil; t = t.parent {
		t.known, t.cycle = current.known, current.cycle
	}
	return nil, nil
}

func (n *observer) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Reserve records the placement. A task that decided nothing begins the binding of a pod of a group,
// with what the loop knew when it was decided.
func (n *observer) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	n.checkOpen("Reserve")
	if current := n.sim.tasks.current; !current.decides && current.parent != nil {
		current.known, current.cycle = current.parent.known, current.parent.cycle
	}
	if !isTrial(state) {
		n.sim.recordPlacement(pod, node, n.spec)
	}
	return nil
}

// Unreserve must come after Probe's: plugins are unreserved in reverse order.
func (n *observer) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	n.checkOpen("Unreserve")
	for _, p := range n.sim.probes {
		if on, still := p.reserved[pod.UID]; still && p.process == n.sim.process {
			n.sim.failf("%s was unreserved on %s by Observer before Probe, which holds it on %s", describe(pod), node, on)
		}
	}
	if n.process == n.sim.process && !isTrial(state) {
		n.sim.recordUndo(pod, node)
	}
}
