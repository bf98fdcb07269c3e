package course

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/probe"
)

// attempt is what one attempt of a pod does in a cluster of two nodes, with a profile that
// has the probes A and B at every point, and DefaultBinder after them.
type attempt struct {
	// Calls has the points in the order of their calls, each with the probes that were
	// called. From PreFilter to NormalizeScore each is listed once: how many nodes a probe
	// is called for, and whether again for the chosen node or after a failure, depends on
	// the equivalence cache.
	Calls string
	// Result is the node of the pod, or else its condition.
	Result string
	// Counts says where the pod is afterwards.
	Counts decision.QueueCounts
}

// The calls of an attempt up to and including each point. Two nodes are scored.
const (
	preEnqueueCalls = "PreEnqueue AB"
	filterCalls     = preEnqueueCalls + ", PreFilter AB, Filter AB"
	preScoreCalls   = filterCalls + ", PreScore AB"
	scoreCalls      = preScoreCalls + ", Score A, NormalizeScore A, Score B, NormalizeScore B"
	reserveCalls    = scoreCalls + reserveAB
	permitCalls     = reserveCalls + ", Permit AB"
	preFlightCalls  = permitCalls + ", PreBindPreFlight AB"
	preBindCalls    = preFlightCalls + ", PreBind AB"
	allCalls        = preBindCalls + ", Bind AB, PostBind AB"

	reserveAB       = ", Reserve AB"
	unreserveBA     = ", Unreserve BA"
	preEnqueueAgain = ", PreEnqueue AB"
	postFilterCalls = preEnqueueCalls + ", PreFilter AB, Filter A, PostFilter A"
)

// The conditions of the pod, and where it is.
const (
	errorStatus         = "False SchedulerError: "
	unschedulableStatus = "False Unschedulable: "
	noneOf2             = unschedulableStatus + "0/2 nodes are available: "
	noneOf1             = unschedulableStatus + "0/1 nodes are available: "
	bothFull            = noneOf2 + "2 full."
)

var (
	notPending       = decision.QueueCounts{}
	oneUnschedulable = decision.QueueCounts{Unschedulable: 1}
	oneInBackoff     = decision.QueueCounts{Backoff: 1}
	oneGated         = decision.QueueCounts{Gated: 1}
	oneWaiting       = decision.QueueCounts{Waiting: 1}
)

var errBroken = errors.New("broken")

// answers are the statuses of the probes, by "A.Filter". All others are Success.
type answers map[string]probe.StatusFunc

// attemptCases are answers and the attempt that follows.
var attemptCases = map[string]struct {
	on   answers
	want attempt
}{
	"all points succeed": {nil, attempt{allCalls, "n1", notPending}},
	"PreEnqueue rejects, and nothing else is called": {answers{"A.PreEnqueue": probe.Unresolvable("no")},
		attempt{"PreEnqueue A", "", oneGated}},

	"PreFilter fails": {answers{"A.PreFilter": probe.Fail(errBroken)},
		attempt{preEnqueueCalls + ", PreFilter A" + preEnqueueAgain, errorStatus + `running PreFilter plugin "A": broken`, oneInBackoff}},
	"PreFilter rejects": {answers{"A.PreFilter": probe.Reject("no")},
		attempt{preEnqueueCalls + ", PreFilter AB, PostFilter A", noneOf2 + "no.", oneUnschedulable}},
	"Filter fails": {answers{"A.Filter": probe.Fail(errBroken)},
		attempt{preEnqueueCalls + ", PreFilter AB, Filter A" + preEnqueueAgain, errorStatus + `running "A" filter plugin: broken`, oneInBackoff}},
	"Filter lets one node pass, which is not scored": {answers{"A.Filter n2": probe.Reject("no")},
		attempt{strings.Replace(allCalls, scoreCalls, filterCalls, 1), "n1", notPending}},

	"Filter rejects, and the first PostFilter succeeds": {answers{"A.Filter": probe.Reject("full")},
		attempt{postFilterCalls, bothFull, oneUnschedulable}},
	"Filter rejects, and neither PostFilter finds a node": {
		answers{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Reject("no"), "B.PostFilter": probe.Reject("no")},
		attempt{postFilterCalls + "B", bothFull + " no, no", oneUnschedulable}},
	"Filter rejects, and the first PostFilter is unresolvable": {
		answers{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Unresolvable("never")},
		attempt{postFilterCalls, bothFull + " never", oneUnschedulable}},
	"Filter rejects, and the second PostFilter is unresolvable": {
		answers{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Reject("no"), "B.PostFilter": probe.Unresolvable("never")},
		attempt{postFilterCalls + "B", bothFull + " never", oneUnschedulable}},
	"Filter rejects, and the first PostFilter fails": {
		answers{"A.Filter": probe.Reject("full"), "A.PostFilter": probe.Fail(errBroken)},
		attempt{postFilterCalls, bothFull + " broken", oneUnschedulable}},

	"PreScore fails": {answers{"A.PreScore": probe.Fail(errBroken)},
		attempt{filterCalls + ", PreScore A" + preEnqueueAgain, errorStatus + `running PreScore plugin "A": broken`, oneInBackoff}},
	"Score fails": {answers{"A.Score": probe.Fail(errBroken)},
		attempt{preScoreCalls + ", Score A" + preEnqueueAgain, errorStatus + `running Score plugins: plugin "A" failed with: broken`, oneInBackoff}},
	"NormalizeScore fails": {answers{"A.NormalizeScore": probe.Fail(errBroken)},
		attempt{preScoreCalls + ", Score A, NormalizeScore A" + preEnqueueAgain, errorStatus + `running Normalize on Score plugins: plugin "A" failed with: broken`, oneInBackoff}},

	"the first Reserve fails, and both are unreserved in reverse order": {answers{"A.Reserve": probe.Fail(errBroken)},
		attempt{scoreCalls + ", Reserve A" + unreserveBA + preEnqueueAgain, errorStatus + `running Reserve plugin "A": broken`, oneInBackoff}},
	"the last Reserve fails, and both are unreserved in reverse order": {answers{"B.Reserve": probe.Fail(errBroken)},
		attempt{reserveCalls + unreserveBA + preEnqueueAgain, errorStatus + `running Reserve plugin "B": broken`, oneInBackoff}},
	"Permit fails, and Unreserve is called": {answers{"A.Permit": probe.Fail(errBroken)},
		attempt{reserveCalls + ", Permit A" + unreserveBA + preEnqueueAgain, errorStatus + `running Permit plugin "A": broken`, oneInBackoff}},
	"Permit rejects, and Unreserve is called": {answers{"A.Permit": probe.Reject("no")},
		attempt{reserveCalls + ", Permit A" + unreserveBA, noneOf1 + "1 no.", oneUnschedulable}},
	"Permit waits, and PreBind is not called": {answers{"A.Permit": probe.Wait},
		attempt{preFlightCalls, "", oneWaiting}},
	"Permit times out, and Unreserve is called": {answers{"B.Permit": probe.Wait},
		attempt{preFlightCalls + unreserveBA, noneOf1 + "1 rejected due to timeout after waiting 100ms at plugin B.", oneUnschedulable}},

	"PreBind fails, Unreserve is called, and PostBind is not": {answers{"A.PreBind": probe.Fail(errBroken)},
		attempt{preFlightCalls + ", PreBind A" + unreserveBA + preEnqueueAgain, errorStatus + `running PreBind plugin "A": broken`, oneInBackoff}},
	"PreBind rejects, and the pod backs off": {answers{"A.PreBind": probe.Reject("no")},
		attempt{preFlightCalls + ", PreBind A" + unreserveBA + preEnqueueAgain, unschedulableStatus + "no", oneInBackoff}},

	"Bind is skipped by both, and DefaultBinder binds": {answers{"A.Bind": probe.Skip, "B.Bind": probe.Skip},
		attempt{allCalls, "n1", notPending}},
	"Bind rejects, no other is called, and PostBind is not": {answers{"A.Bind": probe.Reject("no")},
		attempt{preBindCalls + ", Bind A" + unreserveBA + preEnqueueAgain, unschedulableStatus + "no", oneInBackoff}},
	"Bind fails, no other is called, and PostBind is not": {answers{"A.Bind": probe.Fail(errBroken)},
		attempt{preBindCalls + ", Bind A" + unreserveBA + preEnqueueAgain, errorStatus + `running Bind plugin "A": broken; a Binding at resource version N was given up`, oneInBackoff}},
}

var _ = Describe("Plugins are called in order, and their statuses count:", func() {
	for _, sentence := range slices.Sorted(maps.Keys(attemptCases)) {
		c := attemptCases[sentence]
		It(sentence, minute, func(ctx SpecContext) { expectAttempt(ctx, c.on, c.want, onlyPlugins("A", "B")) })
	}

	It("the middle one of three Reserves fails, and all are unreserved in reverse order", minute, func(ctx SpecContext) {
		first.setFuncs(pluginFuncs{
			reserve:   func(*v1.Pod) *fwk.Status { callLog.Add("F.Reserve"); return nil },
			unreserve: func(*v1.Pod) { callLog.Add("F.Unreserve") },
		})
		expectAttempt(ctx, answers{"B.Reserve": probe.Fail(errBroken)},
			attempt{reserveCalls + ", Unreserve FBA" + preEnqueueAgain, errorStatus + `running Reserve plugin "B": broken`, oneInBackoff},
			onlyPlugins("A", "B"), enableAt(reserveSet, "First"))
	})

	It("all Bind plugins skip, and PostBind is not called", minute, func(ctx SpecContext) {
		expectAttempt(ctx, nil, attempt{preBindCalls + ", Bind AB" + unreserveBA + preEnqueueAgain, errorStatus + "no Bind plugin took the pod", oneInBackoff},
			onlyPlugins("A", "B"), func(s *v1alpha1.SchedulingProfileSpec) {
				s.Plugins.Bind = v1alpha1.PluginSet{}
				enableAt(bindSet, "A", "B")(s)
			})
	})

	DescribeTable("PreFilter restricts the nodes:",
		func(ctx SpecContext, names sets.Set[string], want attempt) {
			probeA.PreFilterNodes = names
			defer func() { probeA.PreFilterNodes = nil }()
			expectAttempt(ctx, nil, want, onlyPlugins("A", "B"))
		},
		Entry("to all nodes", minute, sets.New("n1", "n2"), attempt{allCalls, "n1", notPending}),
		Entry("to an existing node and a missing one", minute, sets.New("n2", "nowhere"),
			attempt{strings.Replace(allCalls, scoreCalls, filterCalls, 1), "n2", notPending}),
	)

	It("each of thirty nodes is filtered and scored once", minute, func(ctx SpecContext) {
		setAnswers(nil)
		p := createProfile(ctx, onlyPlugins("A", "B"))
		for i := range 30 {
			apitest.Created(ctx, admin, node(fmt.Sprint("n", i)).Obj())
		}
		waitForQueue(ctx)
		createBound(ctx, p, pod("a"))
		asked := sets.New[string]()
		for _, line := range callLog.Lines() {
			if strings.HasPrefix(line, "A.Filter ") {
				asked.Insert(line)
			}
		}
		Expect(asked).To(HaveLen(30))
		Expect(countCalls("A.Filter")).To(BeNumerically("<=", 31), "once more for the chosen node")
		Expect(countCalls("A.Score")).To(Equal(30))
		Expect(countCalls("A.NormalizeScore")).To(Equal(1))
	})
})

// expectAttempt schedules one pod and compares its attempt with want.
func expectAttempt(ctx SpecContext, on answers, want attempt, edits ...edit) {
	GinkgoHelper()
	setAnswers(on)
	// The backoff prevents a second attempt.
	p := createProfile(ctx, append(edits, setBackoff(1000))...)
	createNode(ctx, node("n1"))
	createNode(ctx, node("n2"))
	waitForQueue(ctx)
	callLog.Take()
	pod := createPod(ctx, p, pod("a"))
	Eventually(func(g Gomega) {
		// Berth's own update of the pod may arrive before or after the pod is put back.
		// Before, PreEnqueue is called once more.
		calls := strings.Replace(summarizeCalls(callLog.Lines()), "PreEnqueue ABAB", "PreEnqueue AB", 1)
		got := attempt{calls, admin.NodeName(ctx, pod)(g), queueCounts(p)()}
		if got.Result == "" {
			got.Result = resourceVersions.ReplaceAllString(admin.PodScheduled(ctx, pod)(g), "resource version N")
		}
		g.Expect(got).To(Equal(want))
	}).Should(Succeed())
}

// setAnswers sets the statuses of the probes. Bind returns Skip unless it has one.
func setAnswers(on answers) {
	for name, p := range map[string]*probe.Plugin{"A": probeA, "B": probeB} {
		for _, method := range strings.Fields(methods) {
			p.SetStatus(method, on[name+"."+method])
		}
		p.SetStatus("Filter n2", on[name+".Filter n2"])
		if on[name+".Bind"] == nil {
			p.SetStatus("Bind", probe.Skip)
		}
	}
}

const methods = "PreEnqueue PreFilter Filter PostFilter PreScore Score NormalizeScore Reserve Permit PreBind Bind PostBind"

// onlyPlugins enables these plugins at every point, and PrioritySort and DefaultBinder.
func onlyPlugins(names ...string) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Base, s.Plugins = v1alpha1.BaseNone, &v1alpha1.Plugins{}
		// The search for the closest nodes would call Filter again.
		s.Decisions.Explain = v1alpha1.ExplainNone
		for _, where := range []pluginSetOf{
			preEnqueueSet, preFilterSet, filterSet, postFilterSet, preScoreSet, scoreSet, reserveSet, permitSet, preBindSet, bindSet, postBindSet,
		} {
			enableAt(where, names...)(s)
		}
		enableAt(queueSortSet, "PrioritySort")(s)
		enableAt(bindSet, "DefaultBinder")(s)
	}
}

var resourceVersions = regexp.MustCompile(`resource version \d+`)

// summarizeCalls shortens a log: "A.Permit n1", "B.Permit n1" is "Permit AB".
func summarizeCalls(lines []string) string {
	var points []string
	seen, last := sets.New[string](), ""
	for _, line := range lines {
		who, at, _ := strings.Cut(line, ".")
		point, _, _ := strings.Cut(at, " ")
		remembered := strings.Contains("PreFilter Filter PreScore Score NormalizeScore", point)
		if point == "Close" || point == "EventsToRegister" || remembered && seen.Has(point+who) {
			continue
		}
		seen.Insert(point + who)
		if point != last {
			points = append(points, point+" ")
			last = point
		}
		points[len(points)-1] += who
	}
	return strings.Join(points, ", ")
}

// countCalls returns the number of lines of the log with this prefix.
func countCalls(prefix string) (n int) {
	for _, line := range callLog.Lines() {
		if strings.HasPrefix(line, prefix+" ") || line == prefix {
			n++
		}
	}
	return n
}
