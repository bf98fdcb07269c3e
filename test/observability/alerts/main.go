// Command alerts is Berth with plugins that fail in the ways that alerts are about.
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

	"github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

func main() {
	operator.Main(
		plugins.Register("Panics", build(panics{}), (*panics)(nil), nil),
		plugins.Register("Slow", build(slow{}), (*slow)(nil), nil),
		plugins.Register("UnservedEvents", build(unservedEvents{}), (*unservedEvents)(nil), nil),
		plugins.Register("WrongReads", build(&wrongReads{}), (*wrongReads)(nil), nil),
		plugins.Register("WrongEvents", build(&wrongEvents{}), (*wrongEvents)(nil), nil),
	)
}

// build returns the factory of a plugin with one instance for all profiles.
func build(plugin fwk.Plugin) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }
}

// own says whether a plugin is to fail a pod: trials call it for pods of other profiles, too.
func own(pod *v1.Pod, plugin fwk.Plugin) bool { return pod.Labels["fails"] == plugin.Name() }

// panics panics in Filter.
type panics struct{}

func (panics) Name() string { return "Panics" }

func (p panics) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if own(pod, p) {
		panic("for the alert")
	}
	return nil
}

// slow takes long in Filter, but less than framework.CallTimeout.
type slow struct{}

func (slow) Name() string { return "Slow" }

func (p slow) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if own(pod, p) {
		<-time.After(framework.CallTimeout * 9 / 10)
	}
	return nil
}

// unservedEvents registers for events of a resource that the API server does not serve.
type unservedEvents struct{}

func (unservedEvents) Name() string { return "UnservedEvents" }

func (unservedEvents) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (unservedEvents) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: "clearances.v1.example.com", ActionType: fwk.All}}}, nil
}

// wrongReads declares that its verdicts depend on nothing, and refuses at the third call:
// after the first pod was feasible on both nodes, the chosen one is evaluated again.
type wrongReads struct{ calls atomic.Uint64 }

func (*wrongReads) Name() string { return "WrongReads" }

func (*wrongReads) Reads() framework.Reads { return framework.Reads{} }

func (p *wrongReads) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if own(pod, p) && p.calls.Add(1) == 3 {
		return fwk.NewStatus(fwk.Unschedulable, "not this time")
	}
	return nil
}

// wrongEvents refuses each pod once, and registers for an event that does not happen.
type wrongEvents struct{ seen sync.Map }

func (*wrongEvents) Name() string { return "WrongEvents" }

func (p *wrongEvents) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, again := p.seen.LoadOrStore(types.UID(pod.UID), true); own(pod, p) && !again {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not yet")
	}
	return nil, nil
}

func (*wrongEvents) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (*wrongEvents) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}}}, nil
}
