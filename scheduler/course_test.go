package scheduler

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/probe"
)

// course is one attempt of a pod in a cluster of two nodes, by a profile in
// which the probes A and B stand at every point, and the real binder behind
// them at Bind.
type podPath struct {
	// Calls are the points in the order in which they were reached, each with
	// the plugins that were called.
	Calls string
	// Ends is the node that the pod is on, or else what its status says.
	Outcome string
	// Places are where the pod is then, and what is kept of it.
	QueueState string
}

// take lets one pod be scheduled and tells what happened. arrange sets A's
// answers; then, where it is not nil, happens afterwards.
func runPod(t *testing.T, arrange, then func(w *testEnv)) (c podPath) {
	t.Helper()
	runTest(t, func(w *testEnv) {
		b := &probe.Plugin{PluginName: "B", Log: w.journal, Statuses: map[string]probe.StatusFunc{"Bind": probe.Skip}}
		for name, registration := range probe.Registry(b) {
			w.options.Registry[name] = registration
		}
		w.a.Statuses = map[string]probe.StatusFunc{"Bind": probe.Skip}
		w.a.PermitTimeout = time.Minute
		blueprint := w.blueprint("one")
		blueprint.Chains = probe.Chains([]*probe.Plugin{w.a, b})
		blueprint.Chains[framework.Bind] = append(blueprint.Chains[framework.Bind], framework.Entry{Name: defaultbinder.Name})
		arrange(w)
		if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
			t.Fatal(err)
		}
		defer w.startLeading()()
		w.journal.Take()
		w.create(webPod("a"))
		if then != nil {
			w.journal.Take()
			then(w)
			synctest.Wait()
		}
		c = podPath{Calls: dropSecondPreEnqueue(summarizeCalls(w.journal.Take())), Outcome: w.nodeOf("a"), QueueState: w.counts()}
		if c.Outcome == "" {
			// Which version it was depends on what else was written meanwhile.
			c.Outcome = resourceVersions.ReplaceAllString(w.podScheduled("a"), "resource version N")
		}
		if w.waitingPods.Has(webPod("a").UID) {
			c.QueueState += ", at Permit"
		}
		if _, assumed := w.cache.AssumedNode(webPod("a").UID); assumed {
			c.QueueState += ", assumed"
		}
		if node := w.cache.NominatedNode(webPod("a").UID); node != "" {
			c.QueueState += ", nominated for " + node
		}
	}, node("n1"), node("n2"))
	return c
}

var resourceVersions = regexp.MustCompile(`resource version \d+`)

// calls shortens a journal: "A.Filter n1", "B.Filter n1" is "Filter AB".
func summarizeCalls(lines []string) string {
	var points []string
	last := ""
	for _, line := range lines {
		who, at, _ := strings.Cut(line, ".")
		point, _, _ := strings.Cut(at, " ")
		if point != last {
			points = append(points, point+" ")
			last = point
		}
		points[len(points)-1] += who
	}
	return strings.Join(points, ", ")
}

// The way of a pod, up to and including each point.
const (
	filtered    = "PreEnqueue AB, PreFilter AB, Filter ABAB"
	prescored   = filtered + ", PreScore AB"
	scored      = prescored + ", Score AA, NormalizeScore A, Score BB, NormalizeScore B"
	reserved    = scored + ", Reserve AB"
	permitted   = reserved + ", Permit AB"
	preflighted = permitted + ", PreBindPreFlight AB"
	prebound    = preflighted + ", PreBind AB"
	boundCalls  = prebound + ", Bind AB, PostBind AB"
	// undone is the claims taken back, last first, whoever made them; again is
	// the question whether the pod may enter the queue once more.
	unreserved = ", Unreserve BA"
	reenqueued = ", PreEnqueue AB"
)

var errPlugin = errors.New("broken")

// heardOnce leaves out that the gates were asked twice as the pod was put back:
// whether what was written of it is heard before or after that is left to chance.
func dropSecondPreEnqueue(calls string) string {
	return strings.Replace(calls, "PreEnqueue ABAB", "PreEnqueue AB", 1)
}
