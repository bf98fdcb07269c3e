package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// The labels that the simulation's plugin reads.
const (
	tierLabel   = "tier"   // of nodes: Probe's tier argument selects by it
	permitLabel = "permit" // of pods: wait, refuse
	holdLabel   = "hold"   // of pods: PreEnqueue refuses
)

// ProbeArgs are the arguments of Probe.
type ProbeArgs struct {
	metav1.TypeMeta
	// Tier, where it is set, is the label that nodes must have.
	Tier string `json:"tier"`
	// Build says how the constructor ends: "", "error" or "panic".
	Build string `json:"build"`
}

// DeepCopyObject makes ProbeArgs a runtime.Object.
func (a *ProbeArgs) DeepCopyObject() runtime.Object {
	clone := *a
	return &clone
}

// probe is a plugin at every point where work can go wrong or in between. It
// keeps books of what was reserved, and knows when it is used after its end.
type probe struct {
	instance
	handle fwk.Handle
	args   ProbeArgs
	// reserved holds the pods between Reserve and PostBind or Unreserve.
	reserved map[types.UID]string
}

const probeName = "Probe"

func (w *world) newProbe(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	p := &probe{
		instance: w.newInstance(probeName), handle: handle, args: *args.(*ProbeArgs), reserved: map[types.UID]string{},
	}
	w.breathe()
	switch p.args.Build {
	case "error":
		w.count("a plugin that cannot be built")
		return nil, errors.New("as told")
	case "panic":
		w.count("a plugin that panics when it is built")
		panic("as told")
	}
	w.probes = append(w.probes, p)
	return p, nil
}

// Close ends the instance; with work under way, it is a fault.
func (p *probe) Close() error {
	if len(p.reserved) > 0 && p.life == p.world.life {
		p.world.fail("Probe was closed under pods on their way: %v", p.reserved)
	}
	return p.instance.Close()
}

// enter is use, and may fail as plugins do.
func (p *probe) enter(point string) *fwk.Status {
	p.use(point)
	p.hang(point)
	if p.world.healed || !p.world.chance(p.world.swarm.pluginFaults) {
		return nil
	}
	if p.world.chance(0.3) {
		p.world.count("a panic in " + point)
		p.world.say("plugin: panics in %s", point)
		panic("as told")
	}
	p.world.count("an error in " + point)
	p.world.say("plugin: fails in %s", point)
	return fwk.AsStatus(errors.New(point + " failed as told"))
}

// watchedPoints are those at which nobody waits for a plugin for ever.
var watchedPoints = []string{"PreEnqueue", "PreFilter", "Filter", "Reserve", "Unreserve", "Permit"}

// hang takes its time now and then, and sometimes more than anybody waits for.
func (p *probe) hang(point string) {
	w := p.world
	if w.healed || !w.chance(w.swarm.hangs) || !slices.Contains(watchedPoints, point) {
		return
	}
	d := time.Duration(1+w.dice.IntN(20)) * time.Second
	w.say("plugin: takes %v in %s", d, point)
	w.clock.Sleep(d)
	if d > framework.CallTimeout {
		w.count("a plugin comes back late from " + point)
		w.say("plugin: is back from %s", point)
	}
	p.alive(point)
}

// EventsToRegister names what changes the verdicts below.
func (p *probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: p.nodeHint},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: p.podHint},
	}, nil
}

func (p *probe) nodeHint(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	if s := p.enter("QueueingHint"); s != nil {
		return fwk.QueueSkip, s.AsError()
	}
	if p.admits(newObj.(*v1.Node)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *probe) podHint(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	if s := p.enter("QueueingHint"); s != nil {
		return fwk.QueueSkip, s.AsError()
	}
	before, after := oldObj.(*v1.Pod).Labels, newObj.(*v1.Pod).Labels
	if before[permitLabel] != after[permitLabel] || before[holdLabel] != after[holdLabel] {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *probe) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	// It never fails: a pod that a failing gate holds is woken by nothing, here
	// as upstream.
	p.use("PreEnqueue")
	p.hang("PreEnqueue")
	if pod.Labels[holdLabel] != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held by its label")
	}
	return nil
}

func (p *probe) admits(node *v1.Node) bool {
	return p.args.Tier == "" || node.Labels[tierLabel] == p.args.Tier
}

func (p *probe) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, p.enter("PreFilter")
}

func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *probe) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if s := p.enter("Filter"); s != nil {
		return s
	}
	if !p.admits(node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the tier is another")
	}
	return nil
}

func (p *probe) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := p.enter("Reserve"); s != nil {
		return s
	}
	if on, twice := p.reserved[pod.UID]; twice {
		p.world.fail("pod %s was reserved for %s and is still reserved for %s", pod.Name, node, on)
	}
	p.reserved[pod.UID] = node
	return nil
}

// Unreserve comes before the pod is forgotten: somebody else's claims would
// meet this one's.
func (p *probe) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if known, ok := p.world.pods().store[keyOf(pod)]; ok && known.GetUID() == pod.UID && !p.world.sched.Components().Cache.IsAssigned(pod.UID) {
		p.world.fail("%s was forgotten before it was unreserved", describe(pod))
	}
	delete(p.reserved, pod.UID)
	p.world.count("unreserved")
	_ = p.enter("Unreserve")
}

func (p *probe) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if s := p.enter("Permit"); s != nil {
		return s, 0
	}
	switch pod.Labels[permitLabel] {
	case "wait":
		p.world.count("a pod waits at Permit")
		return fwk.NewStatus(fwk.Wait), time.Duration(1+p.world.dice.IntN(20)) * time.Second
	case "refuse":
		return fwk.NewStatus(fwk.Unschedulable, "refused by its label"), 0
	}
	return nil, 0
}

func (p *probe) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if s := p.enter("PreBindPreFlight"); s != nil {
		return nil, s
	}
	if len(pod.Name)%2 == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (p *probe) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return p.enter("PreBind")
}

func (p *probe) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if p.reserved[pod.UID] != node {
		p.world.fail("pod %s was bound to %s, reserved for %q", pod.Name, node, p.reserved[pod.UID])
	}
	delete(p.reserved, pod.UID)
	p.world.count("post-bound")
	_ = p.enter("PostBind")
}
