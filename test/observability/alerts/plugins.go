package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// build is the factory of a plugin that is the same for all profiles.
func build(plugin fwk.Plugin) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }
}

// own says whether a pod is of the profile that a plugin fails: trials ask about
// the pods of others, too.
func own(pod *v1.Pod, plugin fwk.Plugin) bool { return pod.Labels["fails"] == plugin.Name() }

// panics panics.
type panics struct{}

func (panics) Name() string { return "Panics" }

func (p panics) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if own(pod, p) {
		panic("as it is made to")
	}
	return nil
}

// slow takes its time: not so long that it is left behind.
type slow struct{}

func (slow) Name() string { return "Slow" }

func (p slow) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if own(pod, p) {
		<-time.After(framework.CallTimeout * 9 / 10)
	}
	return nil
}

// deaf wants to hear of a resource that nobody serves.
type deaf struct{}

func (deaf) Name() string { return "Deaf" }

func (deaf) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status { return nil }

func (deaf) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: "clearances.v1.example.com", ActionType: fwk.All}}}, nil
}

// liar says that its verdicts depend on nothing, and refuses when it is asked for
// the third time: that is when the first pod has been found to fit both nodes, and
// the one that was chosen is looked at again.
type liar struct{ asked atomic.Uint64 }

func (*liar) Name() string { return "Liar" }

func (*liar) Reads() framework.Reads { return framework.Reads{} }

func (p *liar) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if own(pod, p) && p.asked.Add(1) == 3 {
		return fwk.NewStatus(fwk.Unschedulable, "not this time")
	}
	return nil
}

// sleeper refuses each pod once, and names as what may help it what never comes.
type sleeper struct{ met sync.Map }

func (*sleeper) Name() string { return "Sleeper" }

func (p *sleeper) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, again := p.met.LoadOrStore(types.UID(pod.UID), true); own(pod, p) && !again {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not yet")
	}
	return nil, nil
}

func (*sleeper) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (*sleeper) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}}}, nil
}
