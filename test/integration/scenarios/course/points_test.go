package course

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/probe"
)

// course is one attempt of a pod in a cluster of two nodes, by a profile of
// nothing but the probes A and B at every point, and the real binder behind
// them.
type course struct {
	// Calls are the points in the order in which they were reached, each with
	// the probes that were called. From PreFilter to NormalizeScore each is listed
	// once: about how many nodes a probe is asked, and whether again about the
	// one that is chosen or after a failure, is for the cycle's memo to know.
	Calls string
	// Ends is the node that the pod is on, or else what its status says.
	Ends string
	// Rests is where the pod is then.
	Rests decision.QueueCounts
}

// The way of a pod, up to and including each point. Two nodes are scored.
const (
	queued    = "PreEnqueue AB"
	filtered  = queued + ", PreFilter AB, Filter AB"
	prescored = filtered + ", PreScore AB"
	scored    = prescored + ", Score A, NormalizeScore A, Score B, NormalizeScore B"
	reserved  = scored + reserving
	permitted = reserved + ", Permit AB"
	flown     = permitted + ", PreBindPreFlight AB"
	prebound  = flown + ", PreBind AB"
	onItsNode = prebound + ", Bind AB, PostBind AB"

	reserving = ", Reserve AB"
	undone    = ", Unreserve BA"
	again     = ", PreEnqueue AB"
	full      = queued + ", PreFilter AB, Filter A, PostFilter A"
)

// What a pod is told, and where it rests.
const (
	fails  = "False SchedulerError: "
	nofit  = "False Unschedulable: "
	of2    = nofit + "0/2 nodes are available: "
	of1    = nofit + "0/1 nodes are available: "
	isFull = of2 + "2 full."
)

var (
	nowhere       = decision.QueueCounts{}
	unschedulable = decision.QueueCounts{Unschedulable: 1}
	backsOff      = decision.QueueCounts{Backoff: 1}
	held          = decision.QueueCounts{Gated: 1}
	atPermit      = decision.QueueCounts{Waiting: 1}
)

var errBroken = errors.New("broken")

// on are answers of the probes, by "A.Filter"; no other answer is but success.
type on map[string]probe.StatusFunc

// points are scenarios, each a few answers and what comes of them.
var points = map[string]struct {
	on   on
	want course
}{
	"all is well": {nil, course{onItsNode, "n1", nowhere}},
	"PreEnqueue refuses, and nothing else is asked": {on{"A.PreEnqueue": probe.Unresolvable("no")},
		course{"PreEnqueue A", "", held}},

	"PreFilter fails": {on{"A.PreFilter": probe.Fail(errBroken)},
		course{queued + ", PreFilter A" + again, fails + `running PreFilter plugin "A": broken`, backsOff}},
	"PreFilter refuses": {on{"A.PreFilter": probe.Reject("no")},
		course{queued + ", PreFilter AB, PostFilter A", of2 + "no.", unschedulable}},
	"Filter fails": {on{"A.Filter": probe.Fail(errBroken)},
		course{queued + ", PreFilter AB, Filter A" + again, fails + `running "A" filter plugin: broken`, backsOff}},
	"Filter lets one node pass, which need not be scored": {on{"A.Filter n2": probe.Reject("no")},
		course{strings.Replace(onItsNode, scored, filtered, 1), "n1", nowhere}},

	"Filter refuses, and the first PostFilter makes room": {on{"A.Filter": probe.Reject("full")},
		course{full, isFull, unschedulable}},
	"Filter refuses, and the first PostFilter cannot make room, nor the second": {
		on{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Reject("no"), "B.PostFilter": probe.Reject("no")},
		course{full + "B", isFull + " no, no", unschedulable}},
	"Filter refuses, and the first PostFilter says that there is no way": {
		on{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Unresolvable("never")},
		course{full, isFull + " never", unschedulable}},
	"Filter refuses, and the second PostFilter says that there is no way": {
		on{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Reject("no"), "B.PostFilter": probe.Unresolvable("never")},
		course{full + "B", isFull + " never", unschedulable}},
	"Filter refuses, and the first PostFilter fails": {
		on{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Fail(errBroken)},
		course{full, isFull + " broken", unschedulable}},

	"PreScore fails": {on{"A.PreScore": probe.Fail(errBroken)},
		course{filtered + ", PreScore A" + again, fails + `running PreScore plugin "A": broken`, backsOff}},
	"Score fails": {on{"A.Score": probe.Fail(errBroken)},
		course{prescored + ", Score A" + again, fails + `running Score plugins: plugin "A" failed with: broken`, backsOff}},
	"NormalizeScore fails": {on{"A.NormalizeScore": probe.Fail(errBroken)},
		course{prescored + ", Score A, NormalizeScore A" + again, fails + `running Normalize on Score plugins: plugin "A" failed with: broken`, backsOff}},

	"the first Reserve fails, and both are undone, last first": {on{"A.Reserve": probe.Fail(errBroken)},
		course{scored + ", Reserve A" + undone + again, fails + `running Reserve plugin "A": broken`, backsOff}},
	"the last Reserve fails, and both are undone, last first": {on{"B.Reserve": probe.Fail(errBroken)},
		course{reserved + undone + again, fails + `running Reserve plugin "B": broken`, backsOff}},
	"Permit fails, and what was reserved is undone": {on{"A.Permit": probe.Fail(errBroken)},
		course{reserved + ", Permit A" + undone + again, fails + `running Permit plugin "A": broken`, backsOff}},
	"Permit refuses, and what was reserved is undone": {on{"A.Permit": probe.Reject("no")},
		course{reserved + ", Permit A" + undone, of1 + "1 no.", unschedulable}},
	"Permit asks to wait, and PreBind waits, too": {on{"A.Permit": probe.Wait},
		course{flown, "", atPermit}},
	"Permit waits in vain, and what was reserved is undone": {on{"B.Permit": probe.Wait},
		course{flown + undone, of1 + "1 rejected due to timeout after waiting 100ms at plugin B.", unschedulable}},

	"PreBind fails, what was reserved is undone, and nobody hears of a bind": {on{"A.PreBind": probe.Fail(errBroken)},
		course{flown + ", PreBind A" + undone + again, fails + `running PreBind plugin "A": broken`, backsOff}},
	"PreBind refuses, which is too late to wait for an event": {on{"A.PreBind": probe.Reject("no")},
		course{flown + ", PreBind A" + undone + again, nofit + "no", backsOff}},

	"Bind is skipped by both, and the binder behind them binds": {on{"A.Bind": probe.Skip, "B.Bind": probe.Skip},
		course{onItsNode, "n1", nowhere}},
	"Bind refuses, no other is asked, and nobody hears of a bind": {on{"A.Bind": probe.Reject("no")},
		course{prebound + ", Bind A" + undone + again, nofit + "no", backsOff}},
	"Bind fails, is asked again while nothing is bound, and nobody hears of a bind": {on{"A.Bind": probe.Fail(errBroken)},
		course{prebound + ", Bind AAAAAA" + undone + again, fails + `running Bind plugin "A": broken; a Binding at resource version N was given up`, backsOff}},
}

var _ = Describe("Every plugin is called as often as it must be, and its answer counts:", func() {
	for _, sentence := range slices.Sorted(maps.Keys(points)) {
		c := points[sentence]
		It(sentence, minute, func(ctx SpecContext) { takesIts(ctx, c.on, c.want, sole("A", "B")) })
	}

	It("the middle one of three Reserves fails, and all are undone, last first", minute, func(ctx SpecContext) {
		first.plays(role{
			reserve:   func(*v1.Pod) *fwk.Status { journal.Add("F.Reserve"); return nil },
			unreserve: func(*v1.Pod) { journal.Add("F.Unreserve") },
		})
		takesIts(ctx, on{"B.Reserve": probe.Fail(errBroken)},
			course{reserved + ", Unreserve FBA" + again, fails + `running Reserve plugin "B": broken`, backsOff},
			sole("A", "B"), at(reserves, "First"))
	})

	It("no binder takes the pod, and nobody hears of a bind", minute, func(ctx SpecContext) {
		takesIts(ctx, nil, course{prebound + ", Bind AB" + undone + again, fails + "no Bind plugin took the pod", backsOff},
			sole("A", "B"), func(s *v1alpha1.SchedulingProfileSpec) {
				s.Plugins.Bind = v1alpha1.PluginSet{}
				at(binds, "A", "B")(s)
			})
	})

	DescribeTable("PreFilter names the only nodes to be looked at:",
		func(ctx SpecContext, names sets.Set[string], want course) {
			probeA.PreFilterNodes = names
			defer func() { probeA.PreFilterNodes = nil }()
			takesIts(ctx, nil, want, sole("A", "B"))
		},
		Entry("all that there are", minute, sets.New("n1", "n2"), course{onItsNode, "n1", nowhere}),
		Entry("one that is there, and one that is not", minute, sets.New("n2", "nowhere"),
			course{strings.Replace(onItsNode, scored, filtered, 1), "n2", nowhere}),
	)

	It("each of thirty nodes is filtered and scored once", minute, func(ctx SpecContext) {
		answer(nil)
		p := aProfile(ctx, sole("A", "B"))
		for i := range 30 {
			aNode(ctx, node(fmt.Sprint("n", i)))
		}
		ring(ctx)
		bound(ctx, p, pod("a"))
		asked := sets.New[string]()
		for _, line := range journal.Lines() {
			if strings.HasPrefix(line, "A.Filter ") {
				asked.Insert(line)
			}
		}
		Expect(asked).To(HaveLen(30))
		Expect(count("A.Filter")).To(BeNumerically("<=", 31), "once more about the one that is chosen")
		Expect(count("A.Score")).To(Equal(30))
		Expect(count("A.NormalizeScore")).To(Equal(1))
	})
})
