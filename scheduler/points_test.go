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
var answerCases = []struct {
	point, does string
	answer      probe.StatusFunc
	want        podPath
}{
	{"PreEnqueue", "refuses", probe.Reject("no"), podPath{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "refuses for good", probe.Unresolvable("never"), podPath{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "fails", probe.Fail(errPlugin), podPath{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "panics", probe.Panic, podPath{
		"PreEnqueue A", "", "1 gated",
	}},
	{"Less", "panics", probe.Panic, podPath{
		boundCalls, "n1", "",
	}},
	{"PreFilter", "refuses", probe.Reject("no"), podPath{
		"PreEnqueue AB, PreFilter AB, PostFilter A", "False Unschedulable: 0/2 nodes are available: no.", "1 unschedulable",
	}},
	{"PreFilter", "refuses for good", probe.Unresolvable("never"), podPath{
		"PreEnqueue AB, PreFilter A, PostFilter A", "False Unschedulable: 0/2 nodes are available: never.", "1 unschedulable",
	}},
	{"PreFilter", "is pending", probe.Pending("later"), podPath{
		"PreEnqueue AB, PreFilter A" + reenqueued, `False SchedulerError: running PreFilter plugin "A": later`, "1 backoff",
	}},
	{"PreFilter", "skips", probe.Skip, podPath{
		"PreEnqueue AB, PreFilter AB, Filter BB, PreScore AB, Score AA, NormalizeScore A, Score BB, NormalizeScore B, Reserve AB, Permit AB, PreBindPreFlight AB, PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreFilter", "fails", probe.Fail(errPlugin), podPath{
		"PreEnqueue AB, PreFilter A" + reenqueued, `False SchedulerError: running PreFilter plugin "A": broken`, "1 backoff",
	}},
	{"PreFilter", "panics", probe.Panic, podPath{
		"PreEnqueue AB, PreFilter A" + reenqueued, `False SchedulerError: plugin "A" panicked in PreFilter: the probe panics`, "1 backoff",
	}},
	{"Filter", "refuses", probe.Reject("no"), podPath{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 no.", "1 unschedulable",
	}},
	{"Filter", "refuses for good", probe.Unresolvable("never"), podPath{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 never.", "1 unschedulable",
	}},
	{"Filter", "is pending", probe.Pending("later"), podPath{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 later.", "1 unschedulable",
	}},
	{"Filter", "fails", probe.Fail(errPlugin), podPath{
		"PreEnqueue AB, PreFilter AB, Filter A" + reenqueued, `False SchedulerError: running "A" filter plugin: broken`, "1 backoff",
	}},
	{"Filter", "panics", probe.Panic, podPath{
		"PreEnqueue AB, PreFilter AB, Filter A" + reenqueued, `False SchedulerError: plugin "A" panicked in Filter: the probe panics`, "1 backoff",
	}},
	{"PreScore", "refuses", probe.Reject("no"), podPath{
		filtered + ", PreScore A" + reenqueued, `False SchedulerError: running PreScore plugin "A": no`, "1 backoff",
	}},
	{"PreScore", "skips", probe.Skip, podPath{
		prescored + ", Score BB, NormalizeScore B, Reserve AB, Permit AB, PreBindPreFlight AB, PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreScore", "fails", probe.Fail(errPlugin), podPath{
		filtered + ", PreScore A" + reenqueued, `False SchedulerError: running PreScore plugin "A": broken`, "1 backoff",
	}},
	{"PreScore", "panics", probe.Panic, podPath{
		filtered + ", PreScore A" + reenqueued, `False SchedulerError: plugin "A" panicked in PreScore: the probe panics`, "1 backoff",
	}},
	{"Score", "refuses", probe.Reject("no"), podPath{
		prescored + ", Score A" + reenqueued, `False SchedulerError: running Score plugins: plugin "A" failed with: no`, "1 backoff",
	}},
	{"Score", "fails", probe.Fail(errPlugin), podPath{
		prescored + ", Score A" + reenqueued, `False SchedulerError: running Score plugins: plugin "A" failed with: broken`, "1 backoff",
	}},
	{"Score", "panics", probe.Panic, podPath{
		prescored + ", Score A" + reenqueued, `False SchedulerError: plugin "A" panicked in Score: the probe panics`, "1 backoff",
	}},
	{"NormalizeScore", "refuses", probe.Reject("no"), podPath{
		prescored + ", Score AA, NormalizeScore A" + reenqueued, `False SchedulerError: running Normalize on Score plugins: plugin "A" failed with: no`, "1 backoff",
	}},
	{"NormalizeScore", "fails", probe.Fail(errPlugin), podPath{
		prescored + ", Score AA, NormalizeScore A" + reenqueued, `False SchedulerError: running Normalize on Score plugins: plugin "A" failed with: broken`, "1 backoff",
	}},
	{"NormalizeScore", "panics", probe.Panic, podPath{
		prescored + ", Score AA, NormalizeScore A" + reenqueued, `False SchedulerError: plugin "A" panicked in NormalizeScore: the probe panics`, "1 backoff",
	}},
	{"Reserve", "refuses", probe.Reject("no"), podPath{
		scored + ", Reserve A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 no.", "1 unschedulable",
	}},
	{"Reserve", "refuses for good", probe.Unresolvable("never"), podPath{
		scored + ", Reserve A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 never.", "1 unschedulable",
	}},
	{"Reserve", "is pending", probe.Pending("later"), podPath{
		scored + ", Reserve A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 later.", "1 unschedulable",
	}},
	{"Reserve", "fails", probe.Fail(errPlugin), podPath{
		scored + ", Reserve A" + unreserved + reenqueued, `False SchedulerError: running Reserve plugin "A": broken`, "1 backoff",
	}},
	{"Reserve", "panics", probe.Panic, podPath{
		scored + ", Reserve A" + unreserved + reenqueued, `False SchedulerError: plugin "A" panicked in Reserve: the probe panics`, "1 backoff",
	}},
	{"Permit", "refuses", probe.Reject("no"), podPath{
		reserved + ", Permit A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 no.", "1 unschedulable",
	}},
	{"Permit", "refuses for good", probe.Unresolvable("never"), podPath{
		reserved + ", Permit A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 never.", "1 unschedulable",
	}},
	{"Permit", "is pending", probe.Pending("later"), podPath{
		reserved + ", Permit A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 later.", "1 unschedulable",
	}},
	{"Permit", "asks to wait", probe.Wait, podPath{
		preflighted, "", "1 in flight, at Permit, assumed",
	}},
	{"Permit", "fails", probe.Fail(errPlugin), podPath{
		reserved + ", Permit A" + unreserved + reenqueued, `False SchedulerError: running Permit plugin "A": broken`, "1 backoff",
	}},
	{"Permit", "panics", probe.Panic, podPath{
		reserved + ", Permit A" + unreserved + reenqueued, `False SchedulerError: plugin "A" panicked in Permit: the probe panics`, "1 backoff",
	}},
	{"PreBindPreFlight", "refuses", probe.Reject("no"), podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: PreBindPreFlight A returned "Unschedulable", which is unsupported. It is supposed to return Success, Skip, or Error status`, "1 backoff",
	}},
	{"PreBindPreFlight", "skips", probe.Skip, podPath{
		preflighted + ", PreBind B, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreBindPreFlight", "asks to wait", probe.Wait, podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: PreBindPreFlight A returned "Wait", which is unsupported. It is supposed to return Success, Skip, or Error status`, "1 backoff",
	}},
	{"PreBindPreFlight", "fails", probe.Fail(errPlugin), podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: running PreBindPreFlight "A": broken`, "1 backoff",
	}},
	{"PreBindPreFlight", "panics", probe.Panic, podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: plugin "A" panicked in PreBindPreFlight: the probe panics`, "1 backoff",
	}},
	{"PreBind", "refuses", probe.Reject("no"), podPath{
		preflighted + ", PreBind A" + unreserved + reenqueued, "False Unschedulable: no", "1 backoff",
	}},
	{"PreBind", "refuses for good", probe.Unresolvable("never"), podPath{
		preflighted + ", PreBind A" + unreserved + reenqueued, "False Unschedulable: never", "1 backoff",
	}},
	{"PreBind", "is pending", probe.Pending("later"), podPath{
		preflighted + ", PreBind A" + unreserved + reenqueued, "False Unschedulable: later", "1 backoff",
	}},
	{"PreBind", "fails", probe.Fail(errPlugin), podPath{
		preflighted + ", PreBind A" + unreserved + reenqueued, `False SchedulerError: running PreBind plugin "A": broken`, "1 backoff",
	}},
	{"PreBind", "panics", probe.Panic, podPath{
		preflighted + ", PreBind A" + unreserved + reenqueued, `False SchedulerError: running PreBind plugin "A": plugin "A" panicked in PreBind: the probe panics`, "1 backoff",
	}},
	{"Bind", "refuses", probe.Reject("no"), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, "False Unschedulable: no", "1 backoff",
	}},
	{"Bind", "refuses for good", probe.Unresolvable("never"), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, "False Unschedulable: never", "1 backoff",
	}},
	{"Bind", "is pending", probe.Pending("later"), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, "False Unschedulable: later", "1 backoff",
	}},
	{"Bind", "skips", probe.Skip, podPath{
		boundCalls, "n1", "",
	}},
	{"Bind", "fails", probe.Fail(errPlugin), podPath{
		prebound + ", Bind AAAAAA" + unreserved + reenqueued, `False SchedulerError: running Bind plugin "A": broken; a Binding at resource version N was given up`, "1 backoff",
	}},
	{"Bind", "panics", probe.Panic, podPath{
		prebound + ", Bind A" + unreserved + reenqueued, `False SchedulerError: plugin "A" panicked in Bind: the probe panics; a Binding at resource version N was given up`, "1 backoff",
	}},
	{"PostBind", "panics", probe.Panic, podPath{
		boundCalls, "n1", "",
	}},
}

func TestEveryAnswerAtEveryPoint(t *testing.T) {
	want := podPath{boundCalls, "n1", ""}
	if diff := cmp.Diff(want, runPod(t, func(*testEnv) {}, nil)); diff != "" {
		t.Errorf("all is well (-want +got):\n%s", diff)
	}
	for _, c := range answerCases {
		t.Run(c.point+" "+c.does, func(t *testing.T) {
			got := runPod(t, func(w *testEnv) { w.a.SetStatus(c.point, c.answer) }, nil)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// crowded promises room on both nodes to others, so that filters are asked
// with them there, and without.
func fillNodes(w *testEnv) {
	for _, node := range []string{"n1", "n2"} {
		info, _ := framework.NewPodInfo(fixture.Pod("vip-" + node).Priority(9).NominatedNodeName(node).Obj())
		w.cache.AddNominatedPod(klog.Background(), info, nil)
	}
}

// full lets the pod fit nowhere, and A answer so where it could make room.
func full(answer probe.StatusFunc) func(w *testEnv) {
	return func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("full"))
		w.a.SetStatus("PostFilter", answer)
		w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n2"}
	}
}

// waits lets A make the pod wait at Permit.
func waits(w *testEnv) { w.a.SetStatus("Permit", probe.Wait) }

// refused lets the pod be refused until a node changes its labels, if A's hint
// has it tried again then.
func refusedWith(hint fwk.QueueingHintFn) func(w *testEnv) {
	return func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("full"))
		w.a.Events = []fwk.ClusterEventWithHint{{
			Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, QueueingHintFn: hint,
		}}
	}
}

// relabelled changes the labels of a node, and lets all nodes do.
func relabelled(w *testEnv) {
	w.a.SetStatus("Filter", nil)
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
var edgeCases = map[string]struct {
	arrange, then func(w *testEnv)
	want          podPath
}{
	"AddPod is asked of each for all that have room promised": {fillNodes, nil, podPath{
		strings.Replace(boundCalls, "Filter ABAB", "AddPod AB, Filter ABAB, AddPod AB, Filter ABAB", 1), "n1", "",
	}},
	"AddPod is not asked of a plugin that skips": {func(w *testEnv) { fillNodes(w); w.a.SetStatus("PreFilter", probe.Skip) }, nil, podPath{
		strings.Replace(boundCalls, "Filter ABAB", "AddPod B, Filter BB, AddPod B, Filter BB", 1), "n1", "",
	}},
	"AddPod refuses, which is an error": {func(w *testEnv) { fillNodes(w); w.a.SetStatus("AddPod", probe.Reject("no")) }, nil, podPath{
		"PreEnqueue AB, PreFilter AB, AddPod A" + reenqueued, `False SchedulerError: running AddPod on PreFilter plugin "A": no`, "1 backoff",
	}},
	"AddPod fails": {func(w *testEnv) { fillNodes(w); w.a.SetStatus("AddPod", probe.Fail(errPlugin)) }, nil, podPath{
		"PreEnqueue AB, PreFilter AB, AddPod A" + reenqueued, `False SchedulerError: running AddPod on PreFilter plugin "A": broken`, "1 backoff",
	}},
	"AddPod panics": {func(w *testEnv) { fillNodes(w); w.a.SetStatus("AddPod", probe.Panic) }, nil, podPath{
		"PreEnqueue AB, PreFilter AB, AddPod A" + reenqueued, `False SchedulerError: plugin "A" panicked in AddPod: the probe panics`, "1 backoff",
	}},

	"PostFilter makes room, and no other is asked": {full(nil), nil, podPath{unfit, isFull, "1 unschedulable, nominated for n2"}},
	"PostFilter cannot, and the next is asked":     {full(probe.Reject("no")), nil, podPath{unfit + "B", isFull, "1 unschedulable"}},
	"PostFilter can never, and no other is asked": {full(probe.Unresolvable("never")), nil, podPath{
		unfit, isFull + " never", "1 unschedulable, nominated for n2",
	}},
	"PostFilter fails, and the verdict stands": {full(probe.Fail(errPlugin)), nil, podPath{unfit, isFull + " broken", "1 unschedulable"}},
	"PostFilter panics, and the verdict stands": {full(probe.Panic), nil, podPath{
		unfit, isFull + ` plugin "A" panicked in PostFilter: the probe panics`, "1 unschedulable",
	}},

	"one node fits, and nothing is scored": {func(w *testEnv) { w.a.SetStatus("Filter n2", probe.Reject("no")) }, nil, podPath{
		strings.Replace(strings.Replace(boundCalls, scored, filtered, 1), "Filter ABAB", "Filter ABA", 1), "n1", "",
	}},
	"Unreserve panics, and all is undone": {
		func(w *testEnv) { w.a.SetStatus("Permit", probe.Reject("no")); w.a.SetStatus("Unreserve", probe.Panic) }, nil,
		podPath{reserved + ", Permit A" + unreserved, waiting, "1 unschedulable"},
	},

	"a pod at Permit is allowed": {waits, func(w *testEnv) { w.waitingPods.Get(webPod("a").UID).Allow("A") }, podPath{
		"PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	"a pod at Permit is rejected": {waits, func(w *testEnv) { w.waitingPods.Get(webPod("a").UID).Reject("A", "no") }, podPath{
		"Unreserve BA", waiting, "1 unschedulable",
	}},
	"a pod at Permit is preempted": {waits, func(w *testEnv) { w.waitingPods.Get(webPod("a").UID).Preempt("A", "go") }, podPath{
		"Unreserve BA" + reenqueued, "False SchedulerError: waiting on permit for pod: go", "1 backoff",
	}},
	"a pod at Permit waits too long": {waits, func(*testEnv) { time.Sleep(time.Minute) }, podPath{
		"Unreserve BA", "False Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin A.", "1 unschedulable",
	}},

	"a hint says Queue":                     {refusedWith(hint(fwk.Queue, nil)), relabelled, podPath{boundCalls, "n1", ""}},
	"a hint says Skip":                      {refusedWith(hint(fwk.QueueSkip, nil)), relabelled, podPath{"", isFull, "1 unschedulable"}},
	"a hint fails, and counts as Queue":     {refusedWith(hint(fwk.QueueSkip, errPlugin)), relabelled, podPath{boundCalls, "n1", ""}},
	"a hint panics, and counts as Queue":    {refusedWith(panics), relabelled, podPath{boundCalls, "n1", ""}},
	"no hint is given, and counts as Queue": {refusedWith(nil), relabelled, podPath{boundCalls, "n1", ""}},
}

func TestEveryAnswerInEdgeCases(t *testing.T) {
	for sentence, c := range edgeCases {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, runPod(t, c.arrange, c.then)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// RemovePod is for plugins that make room: they ask what would be if others
// went.
func TestEveryAnswerOfRemovePod(t *testing.T) {
	for sentence, c := range map[string]struct {
		answer      probe.StatusFunc
		calls, says string
	}{
		"all agree":              {nil, "RemovePod AB", ""},
		"it fails":               {probe.Fail(errPlugin), "RemovePod A", `running RemovePod on PreFilter plugin "A": broken`},
		"it refuses, an error":   {probe.Reject("no"), "RemovePod A", `running RemovePod on PreFilter plugin "A": no`},
		"it panics, and is told": {probe.Panic, "RemovePod A", `plugin "A" panicked in RemovePod: the probe panics`},
	} {
		t.Run(sentence, func(t *testing.T) {
			var says string
			got := runPod(t, func(w *testEnv) { w.a.SetStatus("RemovePod", c.answer) }, func(w *testEnv) {
				generation, _ := w.Profiles().Acquire("p")
				defer generation.Release()
				info, _ := framework.NewPodInfo(webPod("victim"))
				status := generation.Framework.RunPreFilterExtensionRemovePod(w.ctx, framework.NewCycleState(), webPod("b"), info, framework.NewNodeInfo())
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
