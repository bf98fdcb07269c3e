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
	"github.com/berthdev/berth/scheduler/plugins"
)

// The labels that Probe reads.
const (
	tierLabel   = "tier"   // of nodes: Probe's tier argument selects by it
	permitLabel = "permit" // of pods: wait, refuse
	holdLabel   = "hold"   // of pods: PreEnqueue refuses
)

// ProbeArgs are the arguments of Probe.
type ProbeArgs struct {
	metav1.TypeMeta
	// Tier, where it is set, is the value of the tier label that nodes must have.
	Tier string `json:"tier"`
	// Build says how the factory ends: "", "error" or "panic".
	Build string `json:"build"`
	// FailsTrial says that its PreFilter fails in a trial.
	FailsTrial bool `json:"failsTrial"`
}

// DeepCopyObject makes ProbeArgs a runtime.Object.
func (a *ProbeArgs) DeepCopyObject() runtime.Object {
	clone := *a
	return &clone
}

// probe has every extension point that can fail or let other tasks run. It records which pods
// are reserved, and detects calls after Close.
type probe struct {
	instance
	handle fwk.Handle
	args   ProbeArgs
	// reserved holds the pods between Reserve and PostBind or Unreserve.
	reserved map[types.UID]string
	// onTrial says that it was built for a trial.
	onTrial bool
}

const probeName = "Probe"

func (sim *simulation) newProbe(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	p := &probe{
		instance: sim.newInstance(probeName), handle: handle, args: *args.(*ProbeArgs), reserved: map[types.UID]string{},
		onTrial: sim.manager != nil && sim.manager.applier.onTrial[handle.ProfileName()],
	}
	sim.maybeYield()
	switch p.args.Build {
	case "error":
		sim.count("a plugin's factory returns an error")
		return nil, errors.New("requested by the simulation")
	case "panic":
		sim.count("a plugin's factory panics")
		panic("requested by the simulation")
	}
	sim.probes = append(sim.probes, p)
	return p, nil
}

// Close fails where pods are still reserved.
func (p *probe) Close() error {
	if len(p.reserved) > 0 && p.process == p.sim.process {
		p.sim.failf("Probe was closed with pods still reserved: %v", p.reserved)
	}
	return p.instance.Close()
}

// call begins a call, which may be slow, panic or return an error.
func (p *probe) call(point string) *fwk.Status {
	p.begin(point)
	p.maybeSleep(point)
	if p.sim.healed || !p.sim.plannedPluginFault(point) && !p.sim.chance(p.sim.settings.pluginFaults) {
		return nil
	}
	if p.sim.chance(0.3) {
		p.sim.count("a panic in " + point)
		p.sim.logf("plugin: panics in %s", point)
		panic("requested by the simulation")
	}
	p.sim.count("an error in " + point)
	p.sim.logf("plugin: fails in %s", point)
	return fwk.AsStatus(errors.New(point + " failed, as the simulation requested"))
}

// timedPoints are the extension points whose calls have a time-out.
var timedPoints = []string{"PreEnqueue", "PreFilter", "Filter", "Reserve", "Unreserve", "Permit"}

// maybeSleep lets a call be slow, sometimes slower than framework.CallTimeout.
func (p *probe) maybeSleep(point string) {
	sim := p.sim
	if sim.healed || !sim.chance(sim.settings.slowCalls) || !slices.Contains(timedPoints, point) {
		return
	}
	d := time.Duration(1+sim.random.IntN(20)) * time.Second
	sim.logf("plugin: takes %v in %s", d, point)
	sim.clock.Sleep(d)
	if d > framework.CallTimeout {
		sim.count("a plugin's call times out in " + point)
		sim.logf("plugin: returns from %s", point)
	}
	p.checkOpen(point)
}

// EventsToRegister names the events that change the verdicts below.
func (p *probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}, QueueingHintFn: p.nodeHint},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}, QueueingHintFn: p.podHint},
	}, nil
}

func (p *probe) nodeHint(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	if s := p.call("QueueingHint"); s != nil {
		return fwk.QueueSkip, s.AsError()
	}
	if p.admits(newObj.(*v1.Node)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *probe) podHint(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	if s := p.call("QueueingHint"); s != nil {
		return fwk.QueueSkip, s.AsError()
	}
	before, after := oldObj.(*v1.Pod).Labels, newObj.(*v1.Pod).Labels
	if before[permitLabel] != after[permitLabel] || before[holdLabel] != after[holdLabel] {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *probe) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	// It never fails: as upstream, no event requeues a pod whose PreEnqueue failed.
	p.begin("PreEnqueue")
	p.maybeSleep("PreEnqueue")
	if pod.Labels[holdLabel] != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held by its label")
	}
	return nil
}

func (p *probe) admits(node *v1.Node) bool {
	return p.args.Tier == "" || node.Labels[tierLabel] == p.args.Tier
}

func (p *probe) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.onTrial && p.args.FailsTrial {
		return nil, fwk.AsStatus(errors.New("its trial fails, as the simulation requested"))
	}
	return nil, p.call("PreFilter")
}

func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *probe) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if s := p.call("Filter"); s != nil {
		return s
	}
	if !p.admits(node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, p.sim.refusal(node.Node()))
	}
	return nil
}

// isTrial says whether a state is that of a member that is decided together with its group.
// What is reserved then is unreserved before the group's members are assumed.
func isTrial(state fwk.CycleState) bool { return state.(*framework.CycleState).Group() != nil }

func (p *probe) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := p.call("Reserve"); s != nil {
		return s
	}
	if on, twice := p.reserved[pod.UID]; twice {
		p.sim.failf("pod %s was reserved for %s and is still reserved for %s", pod.Name, node, on)
	}
	p.reserved[pod.UID] = node
	return nil
}

// Unreserve must be called before the pod is forgotten: the cache would give its resources to
// another pod while Probe still holds it as reserved. A pod that is gone or terminating has no
// resources, whatever Probe holds, as in kube-scheduler.
func (p *probe) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	known, ok := p.sim.podInformer().store[keyOf(pod)]
	stays := ok && known.GetUID() == pod.UID && known.GetDeletionTimestamp() == nil
	if stays && !isTrial(state) && !p.sim.sched.Components().Cache.IsAssigned(pod.UID) {
		p.sim.failf("%s was forgotten before it was unreserved", describe(pod))
	}
	delete(p.reserved, pod.UID)
	p.sim.count("unreserved")
	_ = p.call("Unreserve")
}

func (p *probe) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if s := p.call("Permit"); s != nil {
		return s, 0
	}
	switch pod.Labels[permitLabel] {
	case "wait":
		p.sim.count("a pod waits at Permit")
		return fwk.NewStatus(fwk.Wait), time.Duration(1+p.sim.random.IntN(20)) * time.Second
	case "refuse":
		return fwk.NewStatus(fwk.Unschedulable, "refused by its label"), 0
	}
	return nil, 0
}

func (p *probe) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if s := p.call("PreBindPreFlight"); s != nil {
		return nil, s
	}
	if len(pod.Name)%2 == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

func (p *probe) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return p.call("PreBind")
}

func (p *probe) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if p.reserved[pod.UID] != node {
		p.sim.failf("pod %s was bound to %s, reserved for %q", pod.Name, node, p.reserved[pod.UID])
	}
	delete(p.reserved, pod.UID)
	p.sim.count("post-bound")
	_ = p.call("PostBind")
}

// registry has the in-tree plugins and those of the simulation.
func (sim *simulation) registry() framework.Registry {
	registry, err := plugins.With(plugins.InTree(),
		plugins.Register(observerName, sim.newObserver, (*observer)(nil), (*ObserverArgs)(nil)),
		plugins.Register(probeName, sim.newProbe, (*probe)(nil), (*ProbeArgs)(nil)),
		plugins.Register(orderName, sim.newOrder, (*order)(nil), (*OrderArgs)(nil)),
	)
	if err != nil {
		sim.failf("the registry: %v", err)
	}
	for _, name := range []string{observerName, probeName, orderName} {
		plugin := registry[name]
		plugin.InTree = name != probeName || !sim.settings.outOfTree
		registry[name] = plugin
	}
	return registry
}

// instance is embedded in all plugins of the simulation: it detects calls after Close.
type instance struct {
	sim     *simulation
	name    string
	process int
	closed  bool
}

func (sim *simulation) newInstance(name string) instance {
	return instance{sim: sim, name: name, process: sim.process}
}

func (i *instance) Name() string { return i.name }

// Close marks the instance as closed.
func (i *instance) Close() error {
	i.checkOpen("Close")
	i.closed = true
	i.sim.count(i.name + " closed")
	return nil
}

// checkOpen fails where a closed instance is called. Calls in a process that was killed are
// ignored.
func (i *instance) checkOpen(point string) {
	if i.closed && i.process == i.sim.process {
		i.sim.failf("%s of %s was called after it was closed", point, i.name)
	}
}

// begin starts a call, and lets other tasks run.
func (i *instance) begin(point string) {
	i.checkOpen(point)
	i.sim.maybeYield()
}

const orderName = "Order"

// OrderArgs are the arguments of Order.
type OrderArgs struct {
	metav1.TypeMeta
	// Last lets the pod with the lower priority go first.
	Last bool `json:"last"`
}

// DeepCopyObject makes OrderArgs a runtime.Object.
func (a *OrderArgs) DeepCopyObject() runtime.Object {
	clone := *a
	return &clone
}

// order sorts the queue by priority, descending or ascending.
type order struct {
	instance
	last bool
}

func (sim *simulation) newOrder(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	return &order{sim.newInstance(orderName), args.(*OrderArgs).Last}, nil
}

// Less does not yield, since the queue calls it under its lock.
func (o *order) Less(a, b fwk.QueuedEntityInfo) bool {
	o.checkOpen("Less")
	if mine, other := a.GetPriority(), b.GetPriority(); mine != other {
		return (mine > other) != o.last
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}
