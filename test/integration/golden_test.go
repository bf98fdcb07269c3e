package integration

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// What kubectl itself prints of our kinds stands in testdata, a page for each
// kind, played as the pages of the documentation are.
var _ = Describe("What kubectl prints", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		Eventually(func(g Gomega) { // what another spec leaves behind would be on the pages
			var left v1alpha1.SchedulingProfileList
			g.Expect(admin.List(ctx, &left)).To(Succeed())
			g.Expect(left.Items).To(BeEmpty())
		}).Should(Succeed())
		setTheScene(ctx)
	}, NodeTimeout(2*time.Minute))

	// The first page comes first: what says where a pod went goes after a minute.
	for _, kind := range []string{"schedulingdecisions", "schedulingprofiles", "pluginconfigs"} {
		It("of "+kind+" stands in testdata", SpecTimeout(2*time.Minute), func(ctx SpecContext) {
			expectWidth(expectPlayed(ctx, filepath.Join("test", "integration", "testdata", kind+".md"), placeless))
		})
	}
})

// setTheScene has objects of ours in each state that a page shows.
func setTheScene(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))).To(Succeed())
	aNode(ctx, fixture.Node("a-1").Capacity("cpu", "4", "memory", "16Gi", "pods", "110"))
	aNode(ctx, fixture.Node("a-2").Capacity("cpu", "8", "memory", "16Gi", "pods", "110").Taint("team", "red", v1.TaintEffectNoSchedule))
	binpack := apitest.Created(ctx, admin, fit(metav1.ObjectMeta{Name: "binpack"}, strategy("MostAllocated")))
	Eventually(now(ctx, binpack)).Should(ContainElement("Programmed True Programmed"))
	apitest.Created(ctx, admin, fit(metav1.ObjectMeta{Name: "spare"}, strategy("LeastAllocated")))
	apitest.Created(ctx, admin, &v1alpha1.PluginConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "misspelt"}, Spec: v1alpha1.PluginConfigSpec{Plugin: "NodeResourceFit", Args: raw(strategy("MostAllocated"))},
	})
	audit := aProfileNamed(ctx, "audit", publishingEvery(1), func(s *v1alpha1.SchedulingProfileSpec) {
		s.Decisions.Explain, s.Decisions.Detail = v1alpha1.ExplainAll, v1alpha1.DetailNodes
	})
	batch := aProfileNamed(ctx, "batch", publishingEvery(1), fitFrom("binpack"))
	nightly := aProfileNamed(ctx, "nightly", publishingEvery(1), inState(v1alpha1.StatePaused))
	refused := aProfileNamed(ctx, "refused", publishingEvery(1))
	never := aProfileNamed(ctx, "never-ran", publishingEvery(1), scoring("NodeResourceFit"))
	for _, p := range []*v1alpha1.SchedulingProfile{audit, batch, refused} {
		expectReady(ctx, p)
	}
	edit(ctx, refused, scoring("NodeResourceFit"))
	Eventually(now(ctx, refused)).Should(ContainElement("Ready False UnknownPlugin"))
	Eventually(now(ctx, never)).Should(ContainElement("Ready False UnknownPlugin"))
	Eventually(now(ctx, nightly)).Should(ContainElement("Ready False Paused"))

	pod := func(p *v1alpha1.SchedulingProfile, name string) *fixture.PodBuilder {
		return fixture.Pod("shop/"+name).SchedulerName(p.Name).Requests("cpu", "1")
	}
	for _, waits := range []*fixture.PodBuilder{
		pod(batch, "web-large").Requests("cpu", "6", "memory", "24Gi"), pod(batch, "web-gated").SchedulingGate("example.com/quota"),
		pod(nightly, "report-held"), pod(audit, "web-larger").Requests("cpu", "16"),
	} {
		expectDecision(ctx, aPod(ctx, waits))
	}
	bound := aPod(ctx, pod(audit, "web-bound"))
	admin.ExpectBound(ctx, bound)
	expectDecision(ctx, bound)
	for name, pending := range map[string]int64{"batch": 2, "nightly": 1, "audit": 1, "refused": 0, "never-ran": 0} {
		Eventually(func(g Gomega) {
			p := &v1alpha1.SchedulingProfile{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, p)).To(Succeed())
			g.Expect(p.Status.Queue).NotTo(BeNil())
			g.Expect(p.Status.Queue.Pending).To(Equal(pending))
			g.Expect(name != "audit" || p.Status.Totals.Bound == 1).To(BeTrue())
		}).Should(Succeed())
	}
}

// openEnded are columns whose texts are as long as what they say: they come last,
// and the line up to them has the width of the others.
const openEnded = "MESSAGE"

// expectWidth holds the tables that `kubectl get` printed on a page, and what
// `kubectl explain` did, to the width of a terminal.
func expectWidth(page string) {
	GinkgoHelper()
	for _, block := range consoles.FindAllStringSubmatch(page, -1) {
		measured, until := false, show.Width
		for line := range strings.Lines(block[1]) {
			line = strings.TrimRight(line, " \n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				measured, until = !strings.Contains(command, "describe"), show.Width
				continue
			}
			if at := strings.LastIndex(line, " "+openEnded); at >= 0 && strings.HasPrefix(line, "NAME ") {
				Expect(strings.HasSuffix(line, openEnded)).To(BeTrue(), "it is the last column of %q", line)
				Expect(at+1+len(openEnded)).To(BeNumerically("<=", show.Width), "%q", line)
				until = 0
			}
			if measured && until > 0 {
				Expect(utf8.RuneCountInString(line)).To(BeNumerically("<=", until), "%q", line)
			}
		}
	}
}

var (
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	uids     = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	hashes   = regexp.MustCompile(`\b[0-9a-f]{10}\b`)
	versions = regexp.MustCompile(`Resource Version: +\d+`)
	repeated = regexp.MustCompile(` \(x\d+ over \S+\)`)
	lineEnds = regexp.MustCompile(`(?m) +$`)
)

// events are what `kubectl describe` prints of them; those of one second come in
// any order.
var events = regexp.MustCompile(`(?m)(^ (Normal|Warning) .*\n)+`)

// placeless is what a run on another cluster prints as well.
func placeless(page string) string {
	for _, thing := range []struct {
		pattern *regexp.Regexp
		word    string
	}{{moments, "MOMENT"}, {uids, "UID"}, {hashes, "HASH"}, {versions, "Resource Version: N"}, {repeated, ""}, {lineEnds, ""}} {
		page = thing.pattern.ReplaceAllString(page, thing.word)
	}
	return events.ReplaceAllStringFunc(timeless(page), func(block string) string {
		return strings.Join(slices.Sorted(strings.Lines(block)), "")
	})
}
