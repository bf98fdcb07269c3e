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

// testdata has what kubectl prints of each kind, as sessions that the specs run again.
var _ = Describe("The output of kubectl", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		Eventually(func(g Gomega) { // objects of other specs would be in the output
			var left v1alpha1.SchedulingProfileList
			g.Expect(admin.List(ctx, &left)).To(Succeed())
			g.Expect(left.Items).To(BeEmpty())
		}).Should(Succeed())
		createGoldenObjects(ctx)
	}, NodeTimeout(2*time.Minute))

	// This page is the first since the explanation of a bound pod is deleted after a
	// minute.
	for _, kind := range []string{"schedulingdecisions", "schedulingprofiles", "pluginconfigs"} {
		It("for "+kind+" is that of testdata", SpecTimeout(2*time.Minute), func(ctx SpecContext) {
			expectWidth(checkSession(ctx, filepath.Join("test", "integration", "testdata", kind+".md"), normalizeCluster))
		})
	}
})

// createGoldenObjects creates objects in each state that a page shows.
func createGoldenObjects(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))).To(Succeed())
	createNode(ctx, fixture.Node("a-1").Capacity("cpu", "4", "memory", "16Gi", "pods", "110"))
	createNode(ctx, fixture.Node("a-2").Capacity("cpu", "8", "memory", "16Gi", "pods", "110").Taint("team", "red", v1.TaintEffectNoSchedule))
	binpack := apitest.Created(ctx, admin, fitConfig(metav1.ObjectMeta{Name: "binpack"}, scoringStrategy("MostAllocated")))
	Eventually(currentConditions(ctx, binpack)).Should(ContainElement("Programmed True Programmed"))
	apitest.Created(ctx, admin, fitConfig(metav1.ObjectMeta{Name: "spare"}, scoringStrategy("LeastAllocated")))
	apitest.Created(ctx, admin, &v1alpha1.PluginConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "misspelt"}, Spec: v1alpha1.PluginConfigSpec{Plugin: "NodeResourceFit", Args: rawJSON(scoringStrategy("MostAllocated"))},
	})
	audit := createProfileNamed(ctx, "audit", publishEvery(1), func(s *v1alpha1.SchedulingProfileSpec) {
		s.Decisions.Explain, s.Decisions.Detail = v1alpha1.ExplainAll, v1alpha1.DetailNodes
	})
	batch := createProfileNamed(ctx, "batch", publishEvery(1), referFitConfig("binpack"))
	nightly := createProfileNamed(ctx, "nightly", publishEvery(1), setState(v1alpha1.StatePaused))
	refused := createProfileNamed(ctx, "refused", publishEvery(1))
	never := createProfileNamed(ctx, "never-ran", publishEvery(1), enableScore("NodeResourceFit"))
	for _, p := range []*v1alpha1.SchedulingProfile{audit, batch, refused} {
		expectReady(ctx, p)
	}
	editProfile(ctx, refused, enableScore("NodeResourceFit"))
	Eventually(currentConditions(ctx, refused)).Should(ContainElement("Ready False UnknownPlugin"))
	Eventually(currentConditions(ctx, never)).Should(ContainElement("Ready False UnknownPlugin"))
	Eventually(currentConditions(ctx, nightly)).Should(ContainElement("Ready False Paused"))

	pod := func(p *v1alpha1.SchedulingProfile, name string) *fixture.PodBuilder {
		return fixture.Pod("shop/"+name).SchedulerName(p.Name).Requests("cpu", "1")
	}
	for _, pending := range []*fixture.PodBuilder{
		pod(batch, "web-large").Requests("cpu", "6", "memory", "24Gi"), pod(batch, "web-gated").SchedulingGate("example.com/quota"),
		pod(nightly, "report-held"), pod(audit, "web-larger").Requests("cpu", "16"),
	} {
		expectDecision(ctx, createPod(ctx, pending))
	}
	bound := createPod(ctx, pod(audit, "web-bound"))
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

// lastColumn is the column whose values have no limit. The columns before it have to fit
// the width.
const lastColumn = "MESSAGE"

// expectWidth checks that the output of `kubectl get` and `kubectl explain` on a page fits
// a terminal.
func expectWidth(page string) {
	GinkgoHelper()
	for _, block := range consoleBlocks.FindAllStringSubmatch(page, -1) {
		measured, until := false, show.Width
		for line := range strings.Lines(block[1]) {
			line = strings.TrimRight(line, " \n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				measured, until = !strings.Contains(command, "describe"), show.Width
				continue
			}
			if at := strings.LastIndex(line, " "+lastColumn); at >= 0 && strings.HasPrefix(line, "NAME ") {
				Expect(strings.HasSuffix(line, lastColumn)).To(BeTrue(), "%q ends with the last column", line)
				Expect(at+1+len(lastColumn)).To(BeNumerically("<=", show.Width), "%q", line)
				until = 0
			}
			if measured && until > 0 {
				Expect(utf8.RuneCountInString(line)).To(BeNumerically("<=", until), "%q", line)
			}
		}
	}
}

var (
	timestamps       = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	uids             = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	hashes           = regexp.MustCompile(`\b[0-9a-f]{10}\b`)
	resourceVersions = regexp.MustCompile(`Resource Version: +\d+`)
	repeatCounts     = regexp.MustCompile(` \(x\d+ over \S+\)`)
	trailingSpaces   = regexp.MustCompile(`(?m) +$`)
)

// eventLines are the Events in the output of `kubectl describe`. Those of one second have
// no order.
var eventLines = regexp.MustCompile(`(?m)(^ (Normal|Warning) .*\n)+`)

// normalizeCluster removes what differs on another cluster.
func normalizeCluster(page string) string {
	for _, thing := range []struct {
		pattern *regexp.Regexp
		word    string
	}{{timestamps, "MOMENT"}, {uids, "UID"}, {hashes, "HASH"}, {resourceVersions, "Resource Version: N"}, {repeatCounts, ""}, {trailingSpaces, ""}} {
		page = thing.pattern.ReplaceAllString(page, thing.word)
	}
	return eventLines.ReplaceAllStringFunc(normalizeTimes(page), func(block string) string {
		return strings.Join(slices.Sorted(strings.Lines(block)), "")
	})
}
