package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// courses are what comes of one answer of A at one point, all else being well.
var courses = []struct {
	point, does string
	answer      probe.Answer
	want        course
}{
	{"PreEnqueue", "refuses", probe.Reject("no"), course{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "refuses for good", probe.Unresolvable("never"), course{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "fails", probe.Fail(errBroken), course{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "panics", probe.Panic, course{
		"PreEnqueue A", "", "1 gated",
	}},
	{"Less", "panics", probe.Panic, course{
		bound, "n1", "",
	}},
	{"PreFilter", "refuses", probe.Reject("no"), course{
		"PreEnqueue AB, PreFilter AB, PostFilter A", "False Unschedulable: 0/2 nodes are available: no.", "1 unschedulable",
	}},
	{"PreFilter", "refuses for good", probe.Unresolvable("never"), course{
		"PreEnqueue AB, PreFilter A, PostFilter A", "False Unschedulable: 0/2 nodes are available: never.", "1 unschedulable",
	}},
	{"PreFilter", "is pending", probe.Pending("later"), course{
		"PreEnqueue AB, PreFilter A" + again, `False SchedulerError: running PreFilter plugin "A": later`, "1 backoff",
	}},
	{"PreFilter", "skips", probe.Skip, course{
		"PreEnqueue AB, PreFilter AB, Filter BB, PreScore AB, Score AA, NormalizeScore A, Score BB, NormalizeScore B, Reserve AB, Permit AB, PreBindPreFlight AB, PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreFilter", "fails", probe.Fail(errBroken), course{
		"PreEnqueue AB, PreFilter A" + again, `False SchedulerError: running PreFilter plugin "A": broken`, "1 backoff",
	}},
	{"PreFilter", "panics", probe.Panic, course{
		"PreEnqueue AB, PreFilter A" + again, `False SchedulerError: plugin "A" panicked in PreFilter: the probe panics`, "1 backoff",
	}},
	{"Filter", "refuses", probe.Reject("no"), course{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 no.", "1 unschedulable",
	}},
	{"Filter", "refuses for good", probe.Unresolvable("never"), course{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 never.", "1 unschedulable",
	}},
	{"Filter", "is pending", probe.Pending("later"), course{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 later.", "1 unschedulable",
	}},
	{"Filter", "fails", probe.Fail(errBroken), course{
		"PreEnqueue AB, PreFilter AB, Filter A" + again, `False SchedulerError: running "A" filter plugin: broken`, "1 backoff",
	}},
	{"Filter", "panics", probe.Panic, course{
		"PreEnqueue AB, PreFilter AB, Filter A" + again, `False SchedulerError: plugin "A" panicked in Filter: the probe panics`, "1 backoff",
	}},
	{"PreScore", "refuses", probe.Reject("no"), course{
		filtered + ", PreScore A" + again, `False SchedulerError: running PreScore plugin "A": no`, "1 backoff",
	}},
	{"PreScore", "skips", probe.Skip, course{
		prescored + ", Score BB, NormalizeScore B, Reserve AB, Permit AB, PreBindPreFlight AB, PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreScore", "fails", probe.Fail(errBroken), course{
		filtered + ", PreScore A" + again, `False SchedulerError: running PreScore plugin "A": broken`, "1 backoff",
	}},
	{"PreScore", "panics", probe.Panic, course{
		filtered + ", PreScore A" + again, `False SchedulerError: plugin "A" panicked in PreScore: the probe panics`, "1 backoff",
	}},
	{"Score", "refuses", probe.Reject("no"), course{
		prescored + ", Score A" + again, `False SchedulerError: running Score plugins: plugin "A" failed with: no`, "1 backoff",
	}},
	{"Score", "fails", probe.Fail(errBroken), course{
		prescored + ", Score A" + again, `False SchedulerError: running Score plugins: plugin "A" failed with: broken`, "1 backoff",
	}},
	{"Score", "panics", probe.Panic, course{
		prescored + ", Score A" + again, `False SchedulerError: plugin "A" panicked in Score: the probe panics`, "1 backoff",
	}},
	{"NormalizeScore", "refuses", probe.Reject("no"), course{
		prescored + ", Score AA, NormalizeScore A" + again, `False SchedulerError: running Normalize on Score plugins: plugin "A" failed with: no`, "1 backoff",
	}},
	{"NormalizeScore", "fails", probe.Fail(errBroken), course{
		prescored + ", Score AA, NormalizeScore A" + again, `False SchedulerError: running Normalize on Score plugins: plugin "A" failed with: broken`, "1 backoff",
	}},
	{"NormalizeScore", "panics", probe.Panic, course{
		prescored + ", Score AA, NormalizeScore A" + again, `False SchedulerError: plugin "A" panicked in NormalizeScore: the probe panics`, "1 backoff",
	}},
	{"Reserve", "refuses", probe.Reject("no"), course{
		scored + ", Reserve A" + undone, "False Unschedulable: 0/1 nodes are available: 1 no.", "1 unschedulable",
	}},
	{"Reserve", "refuses for good", probe.Unresolvable("never"), course{
		scored + ", Reserve A" + undone, "False Unschedulable: 0/1 nodes are available: 1 never.", "1 unschedulable",
	}},
	{"Reserve", "is pending", probe.Pending("later"), course{
		scored + ", Reserve A" + undone, "False Unschedulable: 0/1 nodes are available: 1 later.", "1 unschedulable",
	}},
	{"Reserve", "fails", probe.Fail(errBroken), course{
		scored + ", Reserve A" + undone + again, `False SchedulerError: running Reserve plugin "A": broken`, "1 backoff",
	}},
	{"Reserve", "panics", probe.Panic, course{
		scored + ", Reserve A" + undone + again, `False SchedulerError: plugin "A" panicked in Reserve: the probe panics`, "1 backoff",
	}},
	{"Permit", "refuses", probe.Reject("no"), course{
		reserved + ", Permit A" + undone, "False Unschedulable: 0/1 nodes are available: 1 no.", "1 unschedulable",
	}},
	{"Permit", "refuses for good", probe.Unresolvable("never"), course{
		reserved + ", Permit A" + undone, "False Unschedulable: 0/1 nodes are available: 1 never.", "1 unschedulable",
	}},
	{"Permit", "is pending", probe.Pending("later"), course{
		reserved + ", Permit A" + undone, "False Unschedulable: 0/1 nodes are available: 1 later.", "1 unschedulable",
	}},
	{"Permit", "asks to wait", probe.Wait, course{
		flown, "", "1 in flight, at Permit, assumed",
	}},
	{"Permit", "fails", probe.Fail(errBroken), course{
		reserved + ", Permit A" + undone + again, `False SchedulerError: running Permit plugin "A": broken`, "1 backoff",
	}},
	{"Permit", "panics", probe.Panic, course{
		reserved + ", Permit A" + undone + again, `False SchedulerError: plugin "A" panicked in Permit: the probe panics`, "1 backoff",
	}},
	{"PreBindPreFlight", "refuses", probe.Reject("no"), course{
		permitted + ", PreBindPreFlight A" + undone + again, `False SchedulerError: PreBindPreFlight A returned "Unschedulable", which is unsupported. It is supposed to return Success, Skip, or Error status`, "1 backoff",
	}},
	{"PreBindPreFlight", "skips", probe.Skip, course{
		flown + ", PreBind B, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreBindPreFlight", "asks to wait", probe.Wait, course{
		permitted + ", PreBindPreFlight A" + undone + again, `False SchedulerError: PreBindPreFlight A returned "Wait", which is unsupported. It is supposed to return Success, Skip, or Error status`, "1 backoff",
	}},
	{"PreBindPreFlight", "fails", probe.Fail(errBroken), course{
		permitted + ", PreBindPreFlight A" + undone + again, `False SchedulerError: running PreBindPreFlight "A": broken`, "1 backoff",
	}},
	{"PreBindPreFlight", "panics", probe.Panic, course{
		permitted + ", PreBindPreFlight A" + undone + again, `False SchedulerError: plugin "A" panicked in PreBindPreFlight: the probe panics`, "1 backoff",
	}},
	{"PreBind", "refuses", probe.Reject("no"), course{
		flown + ", PreBind A" + undone + again, "False Unschedulable: no", "1 backoff",
	}},
	{"PreBind", "refuses for good", probe.Unresolvable("never"), course{
		flown + ", PreBind A" + undone + again, "False Unschedulable: never", "1 backoff",
	}},
	{"PreBind", "is pending", probe.Pending("later"), course{
		flown + ", PreBind A" + undone + again, "False Unschedulable: later", "1 backoff",
	}},
	{"PreBind", "fails", probe.Fail(errBroken), course{
		flown + ", PreBind A" + undone + again, `False SchedulerError: running PreBind plugin "A": broken`, "1 backoff",
	}},
	{"PreBind", "panics", probe.Panic, course{
		flown + ", PreBind A" + undone + again, `False SchedulerError: running PreBind plugin "A": plugin "A" panicked in PreBind: the probe panics`, "1 backoff",
	}},
	{"Bind", "refuses", probe.Reject("no"), course{
		prebound + ", Bind A" + undone + again, "False Unschedulable: no", "1 backoff",
	}},
	{"Bind", "refuses for good", probe.Unresolvable("never"), course{
		prebound + ", Bind A" + undone + again, "False Unschedulable: never", "1 backoff",
	}},
	{"Bind", "is pending", probe.Pending("later"), course{
		prebound + ", Bind A" + undone + again, "False Unschedulable: later", "1 backoff",
	}},
	{"Bind", "skips", probe.Skip, course{
		bound, "n1", "",
	}},
	{"Bind", "fails", probe.Fail(errBroken), course{
		prebound + ", Bind AAAAAA" + undone + again, `False SchedulerError: running Bind plugin "A": broken; a Binding at resource version N was given up`, "1 backoff",
	}},
	{"Bind", "panics", probe.Panic, course{
		prebound + ", Bind A" + undone + again, `False SchedulerError: plugin "A" panicked in Bind: the probe panics; a Binding at resource version N was given up`, "1 backoff",
	}},
	{"PostBind", "panics", probe.Panic, course{
		bound, "n1", "",
	}},
}

func TestWhatComesOfAnAnswer(t *testing.T) {
	want := course{bound, "n1", ""}
	if diff := cmp.Diff(want, take(t, func(*world) {}, nil)); diff != "" {
		t.Errorf("all is well (-want +got):\n%s", diff)
	}
	for _, c := range courses {
		t.Run(c.point+" "+c.does, func(t *testing.T) {
			got := take(t, func(w *world) { w.a.Set(c.point, c.answer) }, nil)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// crowded promises room on both nodes to others, so that filters are asked
// with them there, and without.
func crowded(w *world) {
	for _, node := range []string{"n1", "n2"} {
		info, _ := framework.NewPodInfo(fixture.Pod("vip-" + node).Priority(9).Nominated(node).Obj())
		w.cache.AddNominatedPod(klog.Background(), info, nil)
	}
}

// full lets the pod fit nowhere, and A answer so where it could make room.
func full(answer probe.Answer) func(w *world) {
	return func(w *world) {
		w.a.Set("Filter", probe.Reject("full"))
		w.a.Set("PostFilter", answer)
		w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n2"}
	}
}

// waits lets A make the pod wait at Permit.
func waits(w *world) { w.a.Set("Permit", probe.Wait) }

// refused lets the pod be refused until a node changes its labels, if A's hint
// has it tried again then.
func refused(hint fwk.QueueingHintFn) func(w *world) {
	return func(w *world) {
		w.a.Set("Filter", probe.Reject("full"))
		w.a.Events = []fwk.ClusterEventWithHint{{
			Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, QueueingHintFn: hint,
		}}
	}
}

// relabelled changes the labels of a node, and lets all nodes do.
func relabelled(w *world) {
	w.a.Set("Filter", nil)
	node := fixture.Node("n1").Label("new", "label").Obj()
	if _, err := w.cluster.CoreV1().Nodes().Update(w.ctx, node, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// hint answers as told.
func hint(answer fwk.QueueingHint, err error) fwk.QueueingHintFn {
	return func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return answer, err }
}

func panics(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { panic("the hint panics") }

const (
	unfit   = "PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A"
	isFull  = "False Unschedulable: 0/2 nodes are available: 2 full."
	waiting = "False Unschedulable: 0/1 nodes are available: 1 no."
)

// sidetracks are answers at points that are reached only when something else
// is as it is. Where something happens then, the calls are those from then on.
var sidetracks = map[string]struct {
	arrange, then func(w *world)
	want          course
}{
	"AddPod is asked of each for all that have room promised": {crowded, nil, course{
		strings.Replace(bound, "Filter ABAB", "AddPod AB, Filter ABAB, AddPod AB, Filter ABAB", 1), "n1", "",
	}},
	"AddPod is not asked of a plugin that skips": {func(w *world) { crowded(w); w.a.Set("PreFilter", probe.Skip) }, nil, course{
		strings.Replace(bound, "Filter ABAB", "AddPod B, Filter BB, AddPod B, Filter BB", 1), "n1", "",
	}},
	"AddPod refuses, which is an error": {func(w *world) { crowded(w); w.a.Set("AddPod", probe.Reject("no")) }, nil, course{
		"PreEnqueue AB, PreFilter AB, AddPod A" + again, `False SchedulerError: running AddPod on PreFilter plugin "A": no`, "1 backoff",
	}},
	"AddPod fails": {func(w *world) { crowded(w); w.a.Set("AddPod", probe.Fail(errBroken)) }, nil, course{
		"PreEnqueue AB, PreFilter AB, AddPod A" + again, `False SchedulerError: running AddPod on PreFilter plugin "A": broken`, "1 backoff",
	}},
	"AddPod panics": {func(w *world) { crowded(w); w.a.Set("AddPod", probe.Panic) }, nil, course{
		"PreEnqueue AB, PreFilter AB, AddPod A" + again, `False SchedulerError: plugin "A" panicked in AddPod: the probe panics`, "1 backoff",
	}},

	"PostFilter makes room, and no other is asked": {full(nil), nil, course{unfit, isFull, "1 unschedulable, nominated for n2"}},
	"PostFilter cannot, and the next is asked":     {full(probe.Reject("no")), nil, course{unfit + "B", isFull, "1 unschedulable"}},
	"PostFilter can never, and no other is asked": {full(probe.Unresolvable("never")), nil, course{
		unfit, isFull + " never", "1 unschedulable, nominated for n2",
	}},
	"PostFilter fails, and the verdict stands": {full(probe.Fail(errBroken)), nil, course{unfit, isFull + " broken", "1 unschedulable"}},
	"PostFilter panics, and the verdict stands": {full(probe.Panic), nil, course{
		unfit, isFull + ` plugin "A" panicked in PostFilter: the probe panics`, "1 unschedulable",
	}},

	"one node fits, and nothing is scored": {func(w *world) { w.a.Set("Filter n2", probe.Reject("no")) }, nil, course{
		strings.Replace(strings.Replace(bound, scored, filtered, 1), "Filter ABAB", "Filter ABA", 1), "n1", "",
	}},
	"Unreserve panics, and all is undone": {
		func(w *world) { w.a.Set("Permit", probe.Reject("no")); w.a.Set("Unreserve", probe.Panic) }, nil,
		course{reserved + ", Permit A" + undone, waiting, "1 unschedulable"},
	},

	"a pod at Permit is allowed": {waits, func(w *world) { w.waiting.Get(web("a").UID).Allow("A") }, course{
		"PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	"a pod at Permit is rejected": {waits, func(w *world) { w.waiting.Get(web("a").UID).Reject("A", "no") }, course{
		"Unreserve BA", waiting, "1 unschedulable",
	}},
	"a pod at Permit is preempted": {waits, func(w *world) { w.waiting.Get(web("a").UID).Preempt("A", "go") }, course{
		"Unreserve BA" + again, "False SchedulerError: waiting on permit for pod: go", "1 backoff",
	}},
	"a pod at Permit waits too long": {waits, func(*world) { time.Sleep(time.Minute) }, course{
		"Unreserve BA", "False Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin A.", "1 unschedulable",
	}},

	"a hint says Queue":                     {refused(hint(fwk.Queue, nil)), relabelled, course{bound, "n1", ""}},
	"a hint says Skip":                      {refused(hint(fwk.QueueSkip, nil)), relabelled, course{"", isFull, "1 unschedulable"}},
	"a hint fails, and counts as Queue":     {refused(hint(fwk.QueueSkip, errBroken)), relabelled, course{bound, "n1", ""}},
	"a hint panics, and counts as Queue":    {refused(panics), relabelled, course{bound, "n1", ""}},
	"no hint is given, and counts as Queue": {refused(nil), relabelled, course{bound, "n1", ""}},
}

func TestWhatComesOfAnAnswerOnASidetrack(t *testing.T) {
	for sentence, c := range sidetracks {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, take(t, c.arrange, c.then)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// RemovePod is for plugins that make room: they ask what would be if others
// went.
func TestWhatComesOfAnAnswerOfRemovePod(t *testing.T) {
	for sentence, c := range map[string]struct {
		answer      probe.Answer
		calls, says string
	}{
		"all agree":              {nil, "RemovePod AB", ""},
		"it fails":               {probe.Fail(errBroken), "RemovePod A", `running RemovePod on PreFilter plugin "A": broken`},
		"it refuses, an error":   {probe.Reject("no"), "RemovePod A", `running RemovePod on PreFilter plugin "A": no`},
		"it panics, and is told": {probe.Panic, "RemovePod A", `plugin "A" panicked in RemovePod: the probe panics`},
	} {
		t.Run(sentence, func(t *testing.T) {
			var says string
			got := take(t, func(w *world) { w.a.Set("RemovePod", c.answer) }, func(w *world) {
				generation, _ := w.Profiles().Acquire("p")
				defer generation.Release()
				info, _ := framework.NewPodInfo(web("victim"))
				status := generation.Framework.RunPreFilterExtensionRemovePod(w.ctx, framework.NewCycleState(), web("b"), info, framework.NewNodeInfo())
				if says = status.Message(); status.IsSuccess() != (c.says == "") || !status.IsSuccess() && !status.IsError() {
					t.Errorf("status %v", status)
				}
			})
			if got.Calls != c.calls || says != c.says {
				t.Errorf("calls %q, says %q; want %q, %q", got.Calls, says, c.calls, c.says)
			}
		})
	}
}
