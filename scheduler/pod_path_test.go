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
	"github.com/berthdev/berth/test/support/probe"
)

// podPath is what one attempt of a pod does in a cluster of two nodes, under a profile with
// the probes A and B at every extension point, and the default binder after them at Bind.
type podPath struct {
	// Calls are the extension points in the order of their calls, each with the plugins that
	// were called.
	Calls string
	// Outcome is the pod's node, or else its PodScheduled condition.
	Outcome string
	// QueueState is where the pod is at the end, and what the cache keeps of it.
	QueueState string
}

// runPod schedules one pod and returns its path. arrange sets A's answers; then, if not nil,
// runs afterwards.
func runPod(t *testing.T, arrange, then func(env *testEnv)) (c podPath) {
	t.Helper()
	runTest(t, func(env *testEnv) {
		env.b = &probe.Plugin{PluginName: "B", Log: env.journal, Statuses: map[string]probe.StatusFunc{"Bind": probe.Skip}}
		for name, registration := range probe.Registry(env.b) {
			env.options.Registry[name] = registration
		}
		env.a.Statuses = map[string]probe.StatusFunc{"Bind": probe.Skip}
		env.a.PermitTimeout = time.Minute
		blueprint := env.blueprint("one")
		blueprint.Chains = probe.Chains([]*probe.Plugin{env.a, env.b})
		blueprint.Chains[framework.Bind] = append(blueprint.Chains[framework.Bind], framework.Entry{Name: defaultbinder.Name})
		arrange(env)
		if err := env.Profiles().Apply(env.ctx, blueprint); err != nil {
			t.Fatal(err)
		}
		defer env.startLeading()()
		env.journal.Take()
		env.create(webPod("a"))
		if then != nil {
			env.journal.Take()
			then(env)
			synctest.Wait()
		}
		c = podPath{Calls: dropSecondPreEnqueue(summarizeCalls(env.journal.Take())), Outcome: env.nodeOf("a"), QueueState: env.counts()}
		if c.Outcome == "" {
			// The version depends on other writes that happened meanwhile.
			c.Outcome = resourceVersions.ReplaceAllString(env.podScheduled("a"), "resource version N")
		}
		if env.waitingPods.Has(webPod("a").UID) {
			c.QueueState += ", at Permit"
		}
		if _, assumed := env.cache.AssumedNode(webPod("a").UID); assumed {
			c.QueueState += ", assumed"
		}
		if node := env.cache.NominatedNode(webPod("a").UID); node != "" {
			c.QueueState += ", nominated for " + node
		}
	}, node("n1"), node("n2"))
	return c
}

var resourceVersions = regexp.MustCompile(`resource version \d+`)

// summarizeCalls shortens a journal: "A.Filter n1", "B.Filter n1" become "Filter AB".
func summarizeCalls(lines []string) string {
	var points []string
	last := ""
	for _, line := range lines {
		plugin, at, _ := strings.Cut(line, ".")
		point, _, _ := strings.Cut(at, " ")
		if point != last {
			points = append(points, point+" ")
			last = point
		}
		points[len(points)-1] += plugin
	}
	return strings.Join(points, ", ")
}

// The calls for a pod up to and including each extension point.
const (
	filtered    = "PreEnqueue AB, PreFilter AB, Filter ABAB"
	prescored   = filtered + ", PreScore AB"
	scored      = prescored + ", Score AA, NormalizeScore A, Score BB, NormalizeScore B"
	reserved    = scored + ", Reserve AB"
	permitted   = reserved + ", Permit AB"
	preflighted = permitted + ", PreBindPreFlight AB"
	prebound    = preflighted + ", PreBind AB"
	boundCalls  = prebound + ", Bind AB, PostBind AB"
	// unreserved is Unreserve of all plugins in reverse order; reenqueued is PreEnqueue when
	// the pod goes back to the queue.
	unreserved = ", Unreserve BA"
	reenqueued = ", PreEnqueue AB"
)

var errPlugin = errors.New("broken")

// dropSecondPreEnqueue removes a second PreEnqueue call: whether the queue handles the
// update of the pod's status before or after the attempt's end is a matter of timing.
func dropSecondPreEnqueue(calls string) string {
	return strings.Replace(calls, "PreEnqueue ABAB", "PreEnqueue AB", 1)
}
