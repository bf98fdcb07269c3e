package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// answerCases are the paths that result from one answer of A at one extension point.
var answerCases = []struct {
	point, does string
	answer      probe.StatusFunc
	want        podPath
}{
	{"PreEnqueue", "rejects", probe.Reject("no"), podPath{
		"PreEnqueue A", "", "1 gated",
	}},
	{"PreEnqueue", "rejects for good", probe.Unresolvable("never"), podPath{
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
	{"PreFilter", "rejects", probe.Reject("no"), podPath{
		"PreEnqueue AB, PreFilter AB, PostFilter A", "False Unschedulable: 0/2 nodes are available: no.", "1 unschedulable",
	}},
	{"PreFilter", "rejects for good", probe.Unresolvable("never"), podPath{
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
	{"Filter", "rejects", probe.Reject("no"), podPath{
		"PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A", "False Unschedulable: 0/2 nodes are available: 2 no.", "1 unschedulable",
	}},
	{"Filter", "rejects for good", probe.Unresolvable("never"), podPath{
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
	{"PreScore", "rejects", probe.Reject("no"), podPath{
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
	{"Score", "rejects", probe.Reject("no"), podPath{
		prescored + ", Score A" + reenqueued, `False SchedulerError: running Score plugins: plugin "A" failed with: no`, "1 backoff",
	}},
	{"Score", "fails", probe.Fail(errPlugin), podPath{
		prescored + ", Score A" + reenqueued, `False SchedulerError: running Score plugins: plugin "A" failed with: broken`, "1 backoff",
	}},
	{"Score", "panics", probe.Panic, podPath{
		prescored + ", Score A" + reenqueued, `False SchedulerError: plugin "A" panicked in Score: the probe panics`, "1 backoff",
	}},
	{"NormalizeScore", "rejects", probe.Reject("no"), podPath{
		prescored + ", Score AA, NormalizeScore A" + reenqueued, `False SchedulerError: running Normalize on Score plugins: plugin "A" failed with: no`, "1 backoff",
	}},
	{"NormalizeScore", "fails", probe.Fail(errPlugin), podPath{
		prescored + ", Score AA, NormalizeScore A" + reenqueued, `False SchedulerError: running Normalize on Score plugins: plugin "A" failed with: broken`, "1 backoff",
	}},
	{"NormalizeScore", "panics", probe.Panic, podPath{
		prescored + ", Score AA, NormalizeScore A" + reenqueued, `False SchedulerError: plugin "A" panicked in NormalizeScore: the probe panics`, "1 backoff",
	}},
	{"Reserve", "rejects", probe.Reject("no"), podPath{
		scored + ", Reserve A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 no.", "1 unschedulable",
	}},
	{"Reserve", "rejects for good", probe.Unresolvable("never"), podPath{
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
	{"Permit", "rejects", probe.Reject("no"), podPath{
		reserved + ", Permit A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 no.", "1 unschedulable",
	}},
	{"Permit", "rejects for good", probe.Unresolvable("never"), podPath{
		reserved + ", Permit A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 never.", "1 unschedulable",
	}},
	{"Permit", "is pending", probe.Pending("later"), podPath{
		reserved + ", Permit A" + unreserved, "False Unschedulable: 0/1 nodes are available: 1 later.", "1 unschedulable",
	}},
	{"Permit", "waits", probe.Wait, podPath{
		preflighted, "", "1 in flight, at Permit, assumed",
	}},
	{"Permit", "fails", probe.Fail(errPlugin), podPath{
		reserved + ", Permit A" + unreserved + reenqueued, `False SchedulerError: running Permit plugin "A": broken`, "1 backoff",
	}},
	{"Permit", "panics", probe.Panic, podPath{
		reserved + ", Permit A" + unreserved + reenqueued, `False SchedulerError: plugin "A" panicked in Permit: the probe panics`, "1 backoff",
	}},
	{"PreBindPreFlight", "rejects", probe.Reject("no"), podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: PreBindPreFlight A returned "Unschedulable", which is unsupported. It is supposed to return Success, Skip, or Error status`, "1 backoff",
	}},
	{"PreBindPreFlight", "skips", probe.Skip, podPath{
		preflighted + ", PreBind B, Bind AB, PostBind AB", "n1", "",
	}},
	{"PreBindPreFlight", "waits", probe.Wait, podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: PreBindPreFlight A returned "Wait", which is unsupported. It is supposed to return Success, Skip, or Error status`, "1 backoff",
	}},
	{"PreBindPreFlight", "fails", probe.Fail(errPlugin), podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: running PreBindPreFlight "A": broken`, "1 backoff",
	}},
	{"PreBindPreFlight", "panics", probe.Panic, podPath{
		permitted + ", PreBindPreFlight A" + unreserved + reenqueued, `False SchedulerError: plugin "A" panicked in PreBindPreFlight: the probe panics`, "1 backoff",
	}},
	{"PreBind", "rejects", probe.Reject("no"), podPath{
		preflighted + ", PreBind A" + unreserved + reenqueued, "False Unschedulable: no", "1 backoff",
	}},
	{"PreBind", "rejects for good", probe.Unresolvable("never"), podPath{
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
	{"Bind", "rejects", probe.Reject("no"), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, "False Unschedulable: no", "1 backoff",
	}},
	{"Bind", "rejects for good", probe.Unresolvable("never"), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, "False Unschedulable: never", "1 backoff",
	}},
	{"Bind", "is pending", probe.Pending("later"), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, "False Unschedulable: later", "1 backoff",
	}},
	{"Bind", "skips", probe.Skip, podPath{
		boundCalls, "n1", "",
	}},
	{"Bind", "fails", probe.Fail(errPlugin), podPath{
		prebound + ", Bind A" + unreserved + reenqueued, `False SchedulerError: running Bind plugin "A": broken; a Binding at resource version N was given up`, "1 backoff",
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
		t.Errorf("without any rejection (-want +got):\n%s", diff)
	}
	for _, c := range answerCases {
		t.Run(c.point+" "+c.does, func(t *testing.T) {
			got := runPod(t, func(env *testEnv) { env.a.SetStatus(c.point, c.answer) }, nil)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A plugin that ends the goroutine which calls it takes the path of one that panics.
func TestGoexitIsLikeAPanicAtEveryPoint(t *testing.T) {
	for _, c := range answerCases {
		if c.does != "panics" {
			continue
		}
		t.Run(c.point, func(t *testing.T) {
			c.want.Outcome = strings.Replace(c.want.Outcome, fmt.Sprintf("panicked in %s: the probe panics", c.point), fmt.Sprintf("ended its goroutine (runtime.Goexit) in %s", c.point), 1)
			got := runPod(t, func(env *testEnv) { env.a.SetStatus(c.point, probe.Goexit) }, nil)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fillNodes nominates other pods for both nodes, so that filters run with them and without.
func fillNodes(env *testEnv) {
	for _, node := range []string{"n1", "n2"} {
		info, _ := framework.NewPodInfo(fixture.Pod("vip-" + node).Priority(9).NominatedNodeName(node).Obj())
		env.cache.AddNominatedPod(klog.Background(), info, nil)
	}
}

// full makes no node fit, and sets A's answer at PostFilter.
func full(answer probe.StatusFunc) func(env *testEnv) {
	return func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.a.SetStatus("PostFilter", answer)
		env.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n2"}
	}
}

// rejectedOnPermit makes A reject the pod on Permit, and answer in Unreserve.
func rejectedOnPermit(unreserve probe.StatusFunc) func(env *testEnv) {
	return func(env *testEnv) {
		env.a.SetStatus("Permit", probe.Reject("no"))
		env.a.SetStatus("Unreserve", unreserve)
	}
}

// waits makes A let the pod wait on Permit.
func waits(env *testEnv) { env.a.SetStatus("Permit", probe.Wait) }

// refusedWith makes A reject the pod until a node changes its labels, with that hint.
func refusedWith(hint fwk.QueueingHintFn) func(env *testEnv) {
	return func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.a.Events = []fwk.ClusterEventWithHint{{
			Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, QueueingHintFn: hint,
		}}
	}
}

// relabelled changes a node's labels, and lets A accept all nodes.
func relabelled(env *testEnv) {
	env.a.SetStatus("Filter", nil)
	node := fixture.Node("n1").Label("new", "label").Obj()
	if _, err := env.cluster.CoreV1().Nodes().Update(env.ctx, node, metav1.UpdateOptions{}); err != nil {
		env.t.Fatal(err)
	}
}

// hint returns a queueing hint with that answer.
func hint(answer fwk.QueueingHint, err error) fwk.QueueingHintFn {
	return func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return answer, err }
}

func endsItsGoroutine(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
	probe.Goexit()
	return fwk.QueueSkip, nil
}

func panics(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { panic("the hint panics") }

const (
	unfit   = "PreEnqueue AB, PreFilter AB, Filter AA, PostFilter A"
	isFull  = "False Unschedulable: 0/2 nodes are available: 2 full."
	waiting = "False Unschedulable: 0/1 nodes are available: 1 no."
)

// edgeCases are answers at points that are only called in certain situations. Where
// something happens after the attempt, Calls are the calls from then on.
var edgeCases = map[string]struct {
	arrange, then func(env *testEnv)
	want          podPath
}{
	"AddPod is called on each plugin for each nominated pod": {fillNodes, nil, podPath{
		strings.Replace(boundCalls, "Filter ABAB", "AddPod AB, Filter ABAB, AddPod AB, Filter ABAB", 1), "n1", "",
	}},
	"AddPod is not called on a plugin that skips": {func(env *testEnv) { fillNodes(env); env.a.SetStatus("PreFilter", probe.Skip) }, nil, podPath{
		strings.Replace(boundCalls, "Filter ABAB", "AddPod B, Filter BB, AddPod B, Filter BB", 1), "n1", "",
	}},
	"AddPod rejects, which is an error": {func(env *testEnv) { fillNodes(env); env.a.SetStatus("AddPod", probe.Reject("no")) }, nil, podPath{
		"PreEnqueue AB, PreFilter AB, AddPod A" + reenqueued, `False SchedulerError: running AddPod on PreFilter plugin "A": no`, "1 backoff",
	}},
	"AddPod fails": {func(env *testEnv) { fillNodes(env); env.a.SetStatus("AddPod", probe.Fail(errPlugin)) }, nil, podPath{
		"PreEnqueue AB, PreFilter AB, AddPod A" + reenqueued, `False SchedulerError: running AddPod on PreFilter plugin "A": broken`, "1 backoff",
	}},
	"AddPod panics": {func(env *testEnv) { fillNodes(env); env.a.SetStatus("AddPod", probe.Panic) }, nil, podPath{
		"PreEnqueue AB, PreFilter AB, AddPod A" + reenqueued, `False SchedulerError: plugin "A" panicked in AddPod: the probe panics`, "1 backoff",
	}},

	"PostFilter nominates a node, and no other plugin is called": {full(nil), nil, podPath{unfit, isFull, "1 unschedulable, nominated for n2"}},
	"PostFilter rejects, and the next plugin is called":          {full(probe.Reject("no")), nil, podPath{unfit + "B", isFull, "1 unschedulable"}},
	"PostFilter rejects for good, and no other plugin is called": {full(probe.Unresolvable("never")), nil, podPath{
		unfit, isFull + " never", "1 unschedulable, nominated for n2",
	}},
	"PostFilter fails, and the pod stays unschedulable": {full(probe.Fail(errPlugin)), nil, podPath{unfit, isFull + " broken", "1 unschedulable"}},
	"PostFilter panics, and the pod stays unschedulable": {full(probe.Panic), nil, podPath{
		unfit, isFull + ` plugin "A" panicked in PostFilter: the probe panics`, "1 unschedulable",
	}},

	"one node fits, and no Score plugin is called": {func(env *testEnv) { env.a.SetStatus("Filter n2", probe.Reject("no")) }, nil, podPath{
		strings.Replace(strings.Replace(boundCalls, scored, filtered, 1), "Filter ABAB", "Filter ABA", 1), "n1", "",
	}},
	"Unreserve panics, and all is undone": {
		rejectedOnPermit(probe.Panic), nil, podPath{reserved + ", Permit A" + unreserved, waiting, "1 unschedulable"},
	},
	"Unreserve ends its goroutine, and all is undone": {
		rejectedOnPermit(probe.Goexit), nil, podPath{reserved + ", Permit A" + unreserved, waiting, "1 unschedulable"},
	},
	"PreBind ends its goroutine, and the one beside it is cancelled": {
		func(env *testEnv) {
			env.a.AllowParallel, env.b.AllowParallel = true, true
			env.a.SetStatus("PreBind", probe.Goexit)
			env.b.OnPreBind = func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				<-ctx.Done()
			}
		}, nil,
		podPath{preflighted + ", PreBind AB" + unreserved + reenqueued, `False SchedulerError: running PreBind plugin "A": plugin "A" ended its goroutine (runtime.Goexit) in PreBind`, "1 backoff"},
	},

	"a pod on Permit is allowed": {waits, func(env *testEnv) { env.waitingPods.Get(webPod("a").UID).Allow("A") }, podPath{
		"PreBind AB, Bind AB, PostBind AB", "n1", "",
	}},
	"a pod on Permit is rejected": {waits, func(env *testEnv) { env.waitingPods.Get(webPod("a").UID).Reject("A", "no") }, podPath{
		"Unreserve BA", waiting, "1 unschedulable",
	}},
	"a pod on Permit is preempted": {waits, func(env *testEnv) { env.waitingPods.Get(webPod("a").UID).Preempt("A", "go") }, podPath{
		"Unreserve BA" + reenqueued, "False SchedulerError: waiting on permit for pod: go", "1 backoff",
	}},
	"a pod on Permit times out": {waits, func(*testEnv) { time.Sleep(time.Minute) }, podPath{
		"Unreserve BA", "False Unschedulable: 0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin A.", "1 unschedulable",
	}},

	"a hint returns Queue":                       {refusedWith(hint(fwk.Queue, nil)), relabelled, podPath{boundCalls, "n1", ""}},
	"a hint returns QueueSkip":                   {refusedWith(hint(fwk.QueueSkip, nil)), relabelled, podPath{"", isFull, "1 unschedulable"}},
	"a hint fails, and counts as Queue":          {refusedWith(hint(fwk.QueueSkip, errPlugin)), relabelled, podPath{boundCalls, "n1", ""}},
	"a hint panics, and counts as Queue":         {refusedWith(panics), relabelled, podPath{boundCalls, "n1", ""}},
	"a hint calls Goexit, and counts as Queue":   {refusedWith(endsItsGoroutine), relabelled, podPath{boundCalls, "n1", ""}},
	"no hint is registered, and counts as Queue": {refusedWith(nil), relabelled, podPath{boundCalls, "n1", ""}},
}

func TestEveryAnswerInEdgeCases(t *testing.T) {
	for name, c := range edgeCases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, runPod(t, c.arrange, c.then)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// RemovePod is for preemption: Filter is evaluated as if other pods were deleted.
func TestEveryAnswerOfRemovePod(t *testing.T) {
	for name, c := range map[string]struct {
		answer      probe.StatusFunc
		calls, says string
	}{
		"all succeed":             {nil, "RemovePod AB", ""},
		"it fails":                {probe.Fail(errPlugin), "RemovePod A", `running RemovePod on PreFilter plugin "A": broken`},
		"it rejects, an error":    {probe.Reject("no"), "RemovePod A", `running RemovePod on PreFilter plugin "A": no`},
		"it panics, and is named": {probe.Panic, "RemovePod A", `plugin "A" panicked in RemovePod: the probe panics`},
	} {
		t.Run(name, func(t *testing.T) {
			var says string
			got := runPod(t, func(env *testEnv) { env.a.SetStatus("RemovePod", c.answer) }, func(env *testEnv) {
				generation, _ := env.Profiles().Acquire("p")
				defer generation.Release()
				info, _ := framework.NewPodInfo(webPod("victim"))
				status := generation.Framework.RunPreFilterExtensionRemovePod(env.ctx, framework.NewCycleState(), webPod("b"), info, framework.NewNodeInfo())
				if says = status.Message(); status.IsSuccess() != (c.says == "") || !status.IsSuccess() && !status.IsError() {
					t.Errorf("status %v", status)
				}
			})
			if got.Calls != c.calls || says != c.says {
				t.Errorf("calls %q, message %q; want %q, %q", got.Calls, says, c.calls, c.says)
			}
		})
	}
}
