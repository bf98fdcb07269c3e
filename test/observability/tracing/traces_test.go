//go:build tracing

package tracing

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

const (
	endpoint = "--tracing-endpoint="
	rate     = "--tracing-sampling-rate-per-million="
)

var _ = Describe("A collector", func() {
	var c *collector

	BeforeEach(func(ctx SpecContext) {
		var err error
		c, err = startCollector(ctx, cp, filepath.Join(root, "bin", "collector"), GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(c.Process) })
	}, minute)

	It("receives a trace of each attempt", func(ctx SpecContext) {
		end := startManager(ctx, endpoint+c.address, rate+"1000000")
		pods := map[string]*v1.Pod{}
		for _, name := range []string{"web-0", "web-1", "web-2"} {
			pods[name] = admin.Pod(ctx, fixture.Pod("default/"+name).SchedulerName("berth").Requests("cpu", "500m"))
			admin.ExpectBound(ctx, pods[name])
		}
		pods["large"] = admin.Pod(ctx, fixture.Pod("default/large").SchedulerName("berth").Requests("cpu", "64"))
		// The condition is written before the attempt ends.
		Eventually(admin.PodScheduled(ctx, pods["large"])).Should(ContainSubstring("Insufficient cpu"))
		By("the manager ends, and sends the remaining spans")
		end()

		attempts := c.attempts(HaveLen(len(pods)))
		for name, pod := range pods {
			spans := attempts[name]
			attempt := spans[0]
			Expect(attempt.Attributes["k8s.pod.uid"]).To(Equal(string(pod.UID)))
			Expect(attempt.Attributes["k8s.namespace.name"]).To(Equal("default"))
			Expect(attempt.Attributes["berth.profile"]).To(Equal("berth"))
			Expect(attempt.Attributes["berth.attempt"]).To(Equal("1"))
			for _, s := range spans {
				Expect(s.Service).To(Equal("berth"))
				Expect(s.TraceID).To(Equal(attempt.TraceID))
			}
			GinkgoWriter.Print(draw(spans))
		}
		for _, name := range []string{"web-0", "web-1", "web-2"} {
			spans := attempts[name]
			Expect(spans[0].Attributes["berth.result"]).To(Equal("Bound"))
			Expect(spans[0].Attributes["k8s.node.name"]).To(Equal(pods[name].Spec.NodeName))
			Expect(spans[0].Attributes["berth.nodes.feasible"]).To(Equal("2"))
			Expect(names(spans, spans[0])).To(Equal([]string{
				"PreFilter", "Filter", "Score", "Reserve", "Permit", "PreBindPreFlight", "Bind", "PostBind",
			}))
			bind := spans[slices.IndexFunc(spans, func(s span) bool { return s.Name == "Bind" })]
			Expect(names(spans, bind)).To(Equal([]string{"HTTP POST"}))
		}
		large := attempts["large"]
		Expect(large[0].Attributes["berth.result"]).To(Equal("Unschedulable"))
		Expect(large[0].Attributes["berth.message"]).To(ContainSubstring("Insufficient cpu"))
		Expect(names(large, large[0])).To(ContainElements("PreFilter", "Filter", "PostFilter"))
	}, minute)

	It("receives nothing at a rate of 0", func(ctx SpecContext) {
		end := startManager(ctx, endpoint+c.address, rate+"0")
		pod := admin.Pod(ctx, fixture.Pod("default/unsampled").SchedulerName("berth").Requests("cpu", "100m"))
		admin.ExpectBound(ctx, pod)
		end()

		By("a later manager, whose spans arrive after those that were not to be sent")
		end = startManager(ctx, endpoint+c.address, rate+"1000000")
		admin.ExpectBound(ctx, admin.Pod(ctx, fixture.Pod("default/sampled").SchedulerName("berth").Requests("cpu", "100m")))
		end()
		attempts := c.attempts(HaveKey("sampled"))
		Expect(attempts).NotTo(HaveKey("unsampled"))
	}, minute)

	It("may be down: pods are bound without it", func(ctx SpecContext) {
		end := startManager(ctx, endpoint+"127.0.0.1:1", rate+"1000000")
		pod := admin.Pod(ctx, fixture.Pod("default/untraced").SchedulerName("berth").Requests("cpu", "100m"))
		admin.ExpectBound(ctx, pod)
		end()
	}, minute)
})

// attempts waits until the spans of the pods' first attempts are as they should be, and returns them.
func (c *collector) attempts(should types.GomegaMatcher) (attempts map[string][]span) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		spans, err := c.read()
		g.Expect(err).NotTo(HaveOccurred())
		attempts = byPod(spans)
		g.Expect(attempts).To(should)
	}).Should(Succeed())
	return attempts
}

// byPod returns the spans of each pod's first attempt: the span of the attempt, and then the
// others by their start.
func byPod(spans []span) map[string][]span {
	slices.SortStableFunc(spans, func(a, b span) int { return a.Start.Compare(b.Start.Time) })
	attempts := map[string][]span{}
	for _, root := range spans {
		name := root.Attributes["k8s.pod.name"]
		if root.ParentSpanID != "" || attempts[name] != nil {
			continue
		}
		all := []span{root}
		for _, s := range spans {
			if s.TraceID == root.TraceID && s.SpanID != root.SpanID {
				all = append(all, s)
			}
		}
		attempts[name] = all
	}
	return attempts
}

// names are the names of the spans right below one.
func names(spans []span, below span) (all []string) {
	for _, s := range spans {
		if s.ParentSpanID == below.SpanID {
			all = append(all, s.Name)
		}
	}
	return all
}

// draw prints a trace as docs/tracing.md shows it: each span with its start and duration.
func draw(spans []span) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	var below func(span, int)
	below = func(s span, depth int) {
		var values []string
		for _, key := range slices.Sorted(maps.Keys(s.Attributes)) {
			values = append(values, key+"="+s.Attributes[key])
		}
		fmt.Fprintf(w, "%s%s\t%v\t%v\t%s\n", strings.Repeat("  ", depth), s.Name,
			s.Start.Sub(spans[0].Start.Time), s.End.Sub(s.Start.Time), strings.Join(values, " "))
		for _, other := range spans {
			if other.ParentSpanID == s.SpanID {
				below(other, depth+1)
			}
		}
	}
	below(spans[0], 0)
	w.Flush()
	return b.String()
}
