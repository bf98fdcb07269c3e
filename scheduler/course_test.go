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
type course struct {
	// Calls are the points in the order in which they were reached, each with
	// the plugins that were called.
	Calls string
	// Ends is the node that the pod is on, or else what its status says.
	Ends string
	// Places are where the pod is then, and what is kept of it.
	Places string
}

// take lets one pod be scheduled and tells what happened. arrange sets A's
// answers; then, where it is not nil, happens afterwards.
func take(t *testing.T, arrange, then func(w *world)) (c course) {
	t.Helper()
	inTime(t, func(w *world) {
		b := &probe.Probe{Called: "B", Journal: w.journal, On: map[string]probe.Answer{"Bind": probe.Skip}}
		for name, registration := range probe.Registry(b) {
			w.options.Registry[name] = registration
		}
		w.a.On = map[string]probe.Answer{"Bind": probe.Skip}
		w.a.Waits = time.Minute
		blueprint := w.blueprint("one")
		blueprint.Chains = probe.Chains([]*probe.Probe{w.a, b})
		blueprint.Chains[framework.Bind] = append(blueprint.Chains[framework.Bind], framework.Entry{Name: defaultbinder.Name})
		arrange(w)
		if err := w.Profiles().Apply(w.ctx, blueprint); err != nil {
			t.Fatal(err)
		}
		defer w.lead()()
		w.journal.Take()
		w.create(web("a"))
		if then != nil {
			w.journal.Take()
			then(w)
			synctest.Wait()
		}
		c = course{Calls: heardOnce(calls(w.journal.Take())), Ends: w.on("a"), Places: w.counts()}
		if c.Ends == "" {
			// Which version it was depends on what else was written meanwhile.
			c.Ends = versions.ReplaceAllString(w.scheduled("a"), "resource version N")
		}
		if w.waiting.Has(web("a").UID) {
			c.Places += ", at Permit"
		}
		if _, assumed := w.cache.Assumed(web("a").UID); assumed {
			c.Places += ", assumed"
		}
		if node := w.cache.NominatedNode(web("a").UID); node != "" {
			c.Places += ", nominated for " + node
		}
	}, node("n1"), node("n2"))
	return c
}

var versions = regexp.MustCompile(`resource version \d+`)

// calls shortens a journal: "A.Filter n1", "B.Filter n1" is "Filter AB".
func calls(lines []string) string {
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
	filtered  = "PreEnqueue AB, PreFilter AB, Filter ABAB"
	prescored = filtered + ", PreScore AB"
	scored    = prescored + ", Score AA, NormalizeScore A, Score BB, NormalizeScore B"
	reserved  = scored + ", Reserve AB"
	permitted = reserved + ", Permit AB"
	flown     = permitted + ", PreBindPreFlight AB"
	prebound  = flown + ", PreBind AB"
	bound     = prebound + ", Bind AB, PostBind AB"
	// undone is the claims taken back, last first, whoever made them; again is
	// the question whether the pod may enter the queue once more.
	undone = ", Unreserve BA"
	again  = ", PreEnqueue AB"
)

var errBroken = errors.New("broken")

// heardOnce leaves out that the gates were asked twice as the pod was put back:
// whether what was written of it is heard before or after that is left to chance.
func heardOnce(calls string) string {
	return strings.Replace(calls, "PreEnqueue ABAB", "PreEnqueue AB", 1)
}
