package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/test/support/fixture"
)

// The events for which the tests' plugins register.
var (
	nodeAdd    = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	nodeLabel  = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}
	podDelete  = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
	podLabel   = fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}
	podLabels  = fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}
	csiNodeAdd = fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}
)

// testEnv is a queue with one profile, "p", whose rules a test can change.
type testEnv struct {
	*Queue
	t     *testing.T
	ctx   context.Context
	clock *clocktesting.FakeClock
	rules Rules
	// closedGates are the PreEnqueue plugins that gate pods. preEnqueueCalls counts the
	// calls of PreEnqueue.
	closedGates     sets.Set[string]
	preEnqueueCalls int
	// hold is why the profile holds all pods.
	hold Hold
	// notified are the holds that takeHolds took, as "name reason".
	notified []string
}

func newTestEnv(t *testing.T) *testEnv {
	w := &testEnv{
		t: t, ctx: klog.NewContext(t.Context(), logr.Discard()), closedGates: sets.New[string](),
		clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	w.Queue = New(Options{Clock: w.clock})
	w.rules = Rules{
		Sort: "Priority", Less: byPriority,
		Hold: func(*v1.Pod) Hold { return w.hold },
		PreEnqueue: func(context.Context, *v1.Pod, string) string {
			w.preEnqueueCalls++
			if w.closedGates.Len() == 0 {
				return ""
			}
			return sets.List(w.closedGates)[0]
		},
		Hints: []Hint{
			{Plugin: "Fit", Event: podDelete},
			{Plugin: "Fit", Event: nodeAdd},
			{Plugin: "Label", Event: podLabels},
			{Plugin: "Gate", Event: nodeLabel},
			{Plugin: "Picky", Event: nodeAdd, Fn: hintForGoodNode},
			{Plugin: "Broken", Event: nodeAdd, Fn: failingHint},
		},
		InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute,
	}
	w.setProfile()
	return w
}

// takeHolds adds the holds that are new to notified, and returns them all.
func (w *testEnv) takeHolds() []string {
	for _, c := range w.TakeHoldChanges() {
		if c.Hold.Reason != "" {
			w.notified = append(w.notified, c.Pod.Name+" "+c.Hold.Reason)
		}
	}
	return w.notified
}

// holdOf returns why the pod with this UID is held, and false when it is not.
func (w *testEnv) holdOf(uid types.UID) (hold Hold, held bool) {
	w.IfHeldOrGated(uid, func(now HoldChange) { hold, held = now.Hold, now.Gate == "" })
	return hold, held
}

// setProfile passes the rules as they are now to the queue.
func (w *testEnv) setProfile() {
	rules := w.rules
	w.SetProfile(w.ctx, "p", &rules)
}

// replaceRules replaces the rules without a swap.
func (w *testEnv) replaceRules(rules *Rules) {
	w.Queue.rules["p"] = rules
	for _, p := range w.pods {
		p.rules = rules
	}
}

func byPriority(a, b fwk.QueuedEntityInfo) bool {
	if a.GetPriority() != b.GetPriority() {
		return a.GetPriority() > b.GetPriority()
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// hintForGoodNode returns Queue for the node called good.
func hintForGoodNode(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	if node, ok := newObj.(*v1.Node); ok && node.Name == "good" {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func failingHint(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
	return fwk.QueueSkip, context.DeadlineExceeded
}

func pod(name string) *v1.Pod { return fixture.Pod(name).SchedulerName("p").Obj() }

func podWithPriority(name string, priority int32) *v1.Pod {
	return fixture.Pod(name).SchedulerName("p").Priority(priority).Obj()
}

// pop begins the attempt of the next pod, which must be the one called name.
func (w *testEnv) pop(name string) *Attempt {
	w.t.Helper()
	a := w.TryPop()
	if a == nil {
		w.t.Fatalf("nothing to pop, want %s", name)
	}
	if a.Pod.Name != name {
		w.t.Fatalf("popped %s, want %s", a.Pod.Name, name)
	}
	return a
}

// addRejectedBy adds a pod and ends its first attempt with a refusal by plugins.
func (w *testEnv) addRejectedBy(p *v1.Pod, plugins ...string) {
	w.t.Helper()
	w.Add(w.ctx, p)
	w.pop(p.Name).Refused(w.ctx, sets.New(plugins...), nil)
}

// nodeEvent passes an event to the queue whose new object is a node.
func (w *testEnv) nodeEvent(e fwk.ClusterEvent, node string) {
	w.Event(w.ctx, e, nil, fixture.Node(node).Obj(), nil)
}

// advance steps the clock and calls Tick.
func (w *testEnv) advance(d time.Duration) {
	w.clock.Step(d)
	w.Tick(w.ctx)
}

// expectAt fails the test unless exactly the pods called names are at place.
func (w *testEnv) expectAt(place Place, names ...string) {
	w.t.Helper()
	w.check()
	var got []string
	for _, p := range w.pods {
		if p.waiting().place == place {
			got = append(got, p.pod.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		w.t.Fatalf("%s: %v, want %v", place, got, names)
	}
}

// placeOf returns the place of a pod, "" for one that the queue does not know.
func (w *testEnv) placeOf(uid types.UID) Place {
	if p, ok := w.pods[uid]; ok {
		return p.place
	}
	return ""
}

// check checks the invariants of the queue, which no other goroutine may use.
func (w *testEnv) check() { w.t.Helper(); checkQueue(w.t, w.Queue) }
