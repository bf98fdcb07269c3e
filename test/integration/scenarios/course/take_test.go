package course

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/probe"
)

// takesIts lets one pod be scheduled and holds what happens to want.
func takesIts(ctx SpecContext, on on, want course, edits ...edit) {
	GinkgoHelper()
	answer(on)
	// Nobody is tried twice within a scenario.
	p := aProfile(ctx, append(edits, backingOff(1000))...)
	aNode(ctx, node("n1"))
	aNode(ctx, node("n2"))
	ring(ctx)
	journal.Take()
	pod := aPod(ctx, p, pod("a"))
	Eventually(func(g Gomega) {
		// Whether what was written of the pod is heard before or after it is put
		// back is left to chance: before, its gates are asked once more.
		heard := strings.Replace(calls(journal.Lines()), "PreEnqueue ABAB", "PreEnqueue AB", 1)
		got := course{heard, admin.Place(ctx, pod)(g), waiting(p)()}
		if got.Ends == "" {
			got.Ends = versions.ReplaceAllString(admin.Standing(ctx, pod)(g), "resource version N")
		}
		g.Expect(got).To(Equal(want))
	}).Should(Succeed())
}

// answer sets what the probes answer. Unless they are told to do something
// else at Bind, they leave it to who stands behind them.
func answer(on on) {
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

// sole is a profile of these plugins at every point, the default order and,
// behind them, the default binder.
func sole(names ...string) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Base, s.Plugins = v1alpha1.BaseNone, &v1alpha1.Plugins{}
		// What is nearest to a refused pod is found by asking Filter plugins more.
		s.Decisions.Explain = v1alpha1.ExplainNone
		for _, where := range []point{
			preEnqueues, preFilters, filters, postFilters, preScores, scores, reserves, permits, preBinds, binds, postBinds,
		} {
			at(where, names...)(s)
		}
		at(queueSorts, "PrioritySort")(s)
		at(binds, "DefaultBinder")(s)
	}
}

var versions = regexp.MustCompile(`resource version \d+`)

// calls shortens a journal: "A.Permit n1", "B.Permit n1" is "Permit AB".
func calls(lines []string) string {
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

// count is how many lines of the journal begin so.
func count(prefix string) (n int) {
	for _, line := range journal.Lines() {
		if strings.HasPrefix(line, prefix+" ") || line == prefix {
			n++
		}
	}
	return n
}
