// Package explanations checks explanations of refusals for generated pods in generated
// clusters: a pod fits on a closest node once it gets all that is said to be missing, and the
// events that are said to requeue it do.
package explanations

import (
	"context"
	"errors"
	"flag"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/exactness/hints"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	refusals  = flag.Int("refusals", 10000, "minimal number of refused pods")
	firstSeed = flag.Uint64("seed", 1, "first seed")
)

// counts show whether the histories tested everything.
type counts struct {
	Refusals, Explained, Closest, Resources, Cordons, Taints, Others, Several int
	// Fewest are the refusals where no other node lacks fewer things than the first closest
	// node.
	Fewest int
	// Woken are pods that were requeued when a node got what was missing, Freed those that
	// were requeued when pods of the node were deleted.
	Requeued, Freed int
}

// fewestShare is the minimal share of refusals whose first closest node is the one that an
// evaluation of all nodes would find.
const fewestShare = 0.95

// A pod fits on a node that gets all that is said to be missing, and on none that gets all but
// one of it.
func TestClosestNodesNameAllThatIsMissing(t *testing.T) {
	var total counts
	seed := *firstSeed
	for ; total.Refusals < *refusals && !t.Failed(); seed++ {
		playHistory(t, seed, &total)
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}
	t.Logf("seeds %d to %d: %+v", *firstSeed, seed-1, total)
	if share := float64(total.Fewest) / float64(total.Explained); share < fewestShare && !t.Failed() {
		t.Errorf("in %.3f of the refusals the first closest node lacks the fewest things, want %.2f", share, fewestShare)
	}
	for what, n := range map[string]int{
		"resources": total.Resources, "cordons": total.Cordons, "taints": total.Taints, "others": total.Others, "several": total.Several,
		"nothing any more, which requeued a pod": total.Requeued, "nothing any more after deletions": total.Freed,
	} {
		if n < total.Refusals/100 && !t.Failed() {
			t.Errorf("the refusals test too little: %d nodes lacked %s", n, what)
		}
	}
}

// playHistory plays one seed; every other cluster is full.
func playHistory(t *testing.T, seed uint64, total *counts) {
	g := generate.New(seed, 150)
	if seed%2 == 0 {
		g = generate.NewPreempting(seed, 150)
	}
	config := g.Config()
	config.Explain = false
	b, err := run.NewBerth(t.Context(), config)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	cluster := run.NewCluster(b)
	r, err := newRequeueEnv(t.Context(), b)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for op, ok := g.Next(); ok && !t.Failed(); op, ok = g.Next() {
		outcome, err := cluster.Do(op)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if outcome == nil {
			continue
		}
		var unfit *framework.FitError
		if errors.As(outcome.Err, &unfit) {
			total.Refusals++
			closest := b.ClosestNodes(unfit)
			if len(closest) > 0 {
				total.Explained++
				if len(closest[0].Missing) == b.FewestMissing(unfit) {
					total.Fewest++
				}
			}
			for _, node := range closest {
				total.Closest++
				checkMissing(t, b, outcome.Pod, node, total)
				checkRequeued(t, refusedPod{b, r, outcome.Pod, unfit}, node, total)
			}
		}
		g.Observe(outcome)
	}
}

// checkMissing gives a node what is missing, and all but one of it.
func checkMissing(t *testing.T, b *run.Berth, pod *v1.Pod, node v1alpha1.ClosestNode, total *counts) {
	t.Helper()
	before := b.Node(node.Node)
	if len(node.Missing) > 1 {
		total.Several++
	}
	for skip := -1; skip < len(node.Missing); skip++ {
		after, but := before.DeepCopy(), []string(nil)
		for i, m := range node.Missing {
			if i == skip {
				continue
			}
			if plugin := give(after, withDefaultConstraints(b, pod), m, skip == -1, total); plugin != "" {
				but = append(but, plugin)
			}
		}
		b.SetNode(before, after)
		status := b.RunFilters(pod, node.Node, but...)
		b.SetNode(after, before)
		switch {
		case skip == -1 && !status.IsSuccess():
			t.Errorf("pod %s does not fit on %s, which has all of %+v: %s: %s",
				pod.Name, node.Node, node.Missing, status.Plugin(), status.Message())
		case skip >= 0 && status.IsSuccess() && !sharedPlugin(node.Missing, skip, but):
			t.Errorf("pod %s fits on %s without %+v of %+v", pod.Name, node.Node, node.Missing[skip], node.Missing)
		}
	}
}

// sharedPlugin says whether the plugin of what was not given is left out because of another
// thing that it misses.
func sharedPlugin(missing []v1alpha1.Missing, skip int, but []string) bool {
	return missing[skip].Plugin != "" && slices.Contains(but, missing[skip].Plugin)
}

// give changes a node so that m is not missing. Where no change of the node can do that, it
// returns the plugin to leave out instead.
func give(node *v1.Node, pod *v1.Pod, m v1alpha1.Missing, first bool, total *counts) (leftOut string) {
	count := func(n *int) {
		if first {
			*n++
		}
	}
	switch {
	case m.Resource != "":
		count(&total.Resources)
		lack := resource.MustParse(m.Requested)
		lack.Sub(resource.MustParse(m.Free))
		has := node.Status.Allocatable[v1.ResourceName(m.Resource)]
		has.Add(lack)
		node.Status.Allocatable[v1.ResourceName(m.Resource)] = has
	case m.Plugin == "NodeUnschedulable":
		count(&total.Cordons)
		node.Spec.Unschedulable = false
	case m.Plugin == "TaintToleration" && !honoursTaints(pod):
		count(&total.Taints)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint v1.Taint) bool {
			return framework.UntoleratedTaint([]v1.Taint{taint}, pod.Spec.Tolerations) != nil
		})
	default:
		count(&total.Others)
		return m.Plugin
	}
	return ""
}

// withDefaultConstraints returns pod with the default constraints of the profile, where it has
// none of its own.
func withDefaultConstraints(b *run.Berth, pod *v1.Pod) *v1.Pod {
	args, ok := b.Blueprint().Args["PodTopologySpread"].(*configv1.PodTopologySpreadArgs)
	if !ok || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.TopologySpreadConstraints = args.DefaultConstraints
	return pod
}

// honoursTaints says whether taints decide which nodes count for the pod's constraints:
// without a taint it may be spread differently.
func honoursTaints(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	})
}

// requeueEnv has the real queue with the hints of a history's plugins, and the real event
// handlers.
type requeueEnv struct {
	informers map[reflect.Type]*hints.Informer
	queue     *queue.Queue
	// named are the requeue events of each plugin, as explanations name them.
	named map[string][]string
}

// newRequeueEnv registers the hints of the plugins of b.
func newRequeueEnv(ctx context.Context, b *run.Berth) (*requeueEnv, error) {
	registered, err := b.Framework().RegisteredEvents(ctx)
	if err != nil {
		return nil, err
	}
	rules := &queue.Rules{
		Less:           func(a, b fwk.QueuedEntityInfo) bool { return a.GetTimestamp().Before(b.GetTimestamp()) },
		Hold:           func(*v1.Pod) queue.Hold { return queue.Hold{} },
		PreEnqueue:     func(context.Context, *v1.Pod, string) string { return "" },
		InitialBackoff: time.Second, MaxBackoff: time.Second,
	}
	for _, hint := range registered {
		rules.Hints = append(rules.Hints, queue.Hint{Plugin: hint.Plugin, Event: hint.Event, Fn: hint.QueueingHintFn})
	}
	factory, all := hints.NewInformers()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r := &requeueEnv{informers: all, queue: queue.New(queue.Options{Clock: clock}), named: profile.RequeueEvents(rules.Hints)}
	r.queue.SetProfile(ctx, b.Blueprint().Name, rules)
	_, err = eventhandlers.New(eventhandlers.Options{
		PendingPods: &eventhandlers.PendingPods{Cache: cache.New(), Queue: r.queue, WaitingPods: framework.NewWaitingPods(clock), Log: logr.Discard()},
		Binding:     hints.NoBinding{},
	}).Register(factory)
	return r, err
}

// requeues says whether change requeues a pod that was refused, and removes the pod again.
func (r *requeueEnv) requeues(ctx context.Context, profile string, pod *v1.Pod, unfit *framework.FitError, change func() error) (bool, error) {
	pod = pod.DeepCopy()
	pod.Spec.SchedulerName, pod.Spec.NodeName = profile, ""
	r.queue.Add(ctx, pod)
	attempt := r.queue.TryPop()
	attempt.Refused(ctx, unfit.Diagnosis.UnschedulablePlugins, unfit.Diagnosis.PendingPlugins)
	err := change()
	place := r.queue.Places()[pod.UID]
	r.queue.Delete(pod.UID)
	return place == queue.Active || place == queue.Backoff, err
}

// names says whether event, or wider, is among the requeue events of a plugin that refused the
// pod.
func (r *requeueEnv) names(unfit *framework.FitError, event, wider string) bool {
	for _, plugin := range sets.List(unfit.Diagnosis.UnschedulablePlugins.Union(unfit.Diagnosis.PendingPlugins)) {
		if slices.ContainsFunc(r.named[plugin], func(name string) bool { return name == event || name == wider || name == "*/*" }) {
			return true
		}
	}
	return false
}

func (r *requeueEnv) nodes() *hints.Informer { return r.informers[reflect.TypeFor[*v1.Node]()] }
func (r *requeueEnv) pods() *hints.Informer  { return r.informers[reflect.TypeFor[*v1.Pod]()] }

// refusedPod is a pod with its refusal.
type refusedPod struct {
	*run.Berth
	*requeueEnv
	pod   *v1.Pod
	unfit *framework.FitError
}

// checkRequeued gives a node what is missing there, and then deletes its pods instead: both
// events are named, and requeue the pod.
func checkRequeued(t *testing.T, s refusedPod, node v1alpha1.ClosestNode, total *counts) {
	t.Helper()
	before := s.Node(node.Node)
	after, onlyResources := before.DeepCopy(), true
	// One change of the node may be several events; one of them must be named.
	event, other := "Node/UpdateAllocatable", ""
	for _, m := range node.Missing {
		if give(after, withDefaultConstraints(s.Berth, s.pod), m, false, total) != "" {
			return // not a change of the node alone
		}
		if m.Resource == "" {
			event, onlyResources = "Node/UpdateTaint", false
		} else {
			other = "Node/UpdateAllocatable"
		}
	}
	if other != "" && !s.names(s.unfit, event, "Node/Update") {
		event = other
	}
	s.expectRequeued(t, node, event, func() error { return s.nodes().Apply(after) }, func() error { return s.nodes().Apply(before) })
	total.Requeued++
	if removed := s.podsInTheWay(node.Node); onlyResources && len(removed) > 0 {
		s.expectRequeued(t, node, "AssignedPod/Delete", func() error {
			for _, pod := range removed {
				if err := s.pods().Remove(pod); err != nil {
					return err
				}
			}
			return nil
		}, func() error {
			for _, pod := range removed {
				if err := s.pods().Apply(pod); err != nil {
					return err
				}
			}
			return nil
		})
		total.Freed++
	}
}

// expectRequeued checks that event is named, undoes the change, and expects that the change
// requeues the pod.
func (s refusedPod) expectRequeued(t *testing.T, node v1alpha1.ClosestNode, event string, change, undo func() error) {
	t.Helper()
	if !s.names(s.unfit, event, "Node/Update") {
		t.Errorf("pod %s, which lacks %+v on %s: %s is not among its requeue events", s.pod.Name, node.Missing, node.Node, event)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	requeued, err := s.requeues(t.Context(), s.Blueprint().Name, s.pod, s.unfit, change)
	if err != nil {
		t.Fatal(err)
	}
	if !requeued {
		t.Errorf("%s does not requeue pod %s, which lacks on %s: %+v", event, s.pod.Name, node.Node, node.Missing)
	}
}

// podsInTheWay are the pods of a node without which the pod fits there; none where it would
// not fit.
func (s refusedPod) podsInTheWay(node string) (removed []*v1.Pod) {
	for _, info := range slices.Clone(s.LastRequest().Snapshot.Node(node).GetPods()) {
		removed = append(removed, info.GetPod())
	}
	if len(removed) == 0 || !s.FitsWithout(s.pod, node, removed) {
		return nil
	}
	return removed
}
