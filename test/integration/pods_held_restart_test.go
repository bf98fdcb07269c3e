package integration

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/fixture"
)

// heldBy is what holds the pods of a profile, by a word for it.
var heldBy = map[string]struct {
	// reason is what users read.
	reason string
	edit   func(*v1alpha1.SchedulingProfileSpec)
	ask    func(*fixture.PodBuilder) *fixture.PodBuilder
}{
	"paused":  {reason: "ProfilePaused", edit: inState(v1alpha1.StatePaused)},
	"others":  {reason: "NamespaceNotAllowed", edit: forTeam("none")},
	"refused": {reason: "ProfileNotRunning", edit: scoring("NoSuch")},
	"awaits":  {reason: "ProfileNotRunning", edit: func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual }},
	"asks":    {reason: "Unsupported", ask: unhonoured},
	"deleted": {reason: "ProfileDeleted"},
}

var _ = Describe("Pods that are held for another reason than room", func() {
	BeforeEach(buildPlugin, NodeTimeout(10*time.Minute))

	It("say so in every place, before a restart of Berth and after it", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		y := aYard(ctx)
		aNode(ctx, y.node("n"))
		stopManager()
		registry := prometheus.NewRegistry()
		berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)

		pods := map[string]*v1.Pod{}
		for _, word := range slices.Sorted(maps.Keys(heldBy)) {
			by := heldBy[word]
			var edits []func(*v1alpha1.SchedulingProfileSpec)
			if by.edit != nil {
				edits = append(edits, by.edit)
			}
			p := aProfileNamed(ctx, y.name+"-"+word, edits...)
			pod := y.pod(p, word)
			if by.ask != nil {
				pod = by.ask(pod)
			}
			if word == "deleted" {
				expectReady(ctx, p)
				pods[word] = aPod(ctx, pod.Requests("cpu", "1000"))
				expectHeld(ctx, v1.PodReasonUnschedulable, pods[word])
				Expect(admin.Delete(ctx, p)).To(Succeed())
				expectHeld(ctx, by.reason, pods[word])
				aMinuteLater(ctx) // it was explained otherwise before
				continue
			}
			pods[word] = aPod(ctx, pod)
		}

		since := map[string]metav1.Time{}
		for _, when := range []string{"before", "after"} {
			By(when)
			for word, pod := range pods {
				reason := heldBy[word].reason
				Eventually(surfaces(ctx, registry, pod)).Should(Equal(map[string]string{
					"condition": reason, "event": "FailedScheduling", "why": reason, "berth_held_pods": reason,
				}), "%s %s", word, when)
				said := shell(ctx, "kubectl berth explain pod/"+pod.Name+" -n "+pod.Namespace)
				Expect(said).To(And(MatchRegexp(`Condition +PodScheduled=False \(%s\), `, reason), MatchRegexp(`Blocked by +%s\n`, reason)), "%s %s", word, when)
				Expect(checked(ctx)).To(ContainElement(And(
					HavePrefix("pods 1 pod of profile "+pod.Spec.SchedulerName+" held (first: "+pod.Namespace+"/"+pod.Name+"): "+reason+": "))), "%s %s", word, when)
				if when == "before" {
					since[word] = expectDecision(ctx, pod).Status.LastChange
				}
			}
			stopManager()
			registry = prometheus.NewRegistry()
			berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)
		}

		By("whose profile is deleted while Berth is away")
		stopManager()
		gone := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: pods["paused"].Spec.SchedulerName}}
		Expect(admin.Delete(ctx, gone)).To(Succeed())
		registry = prometheus.NewRegistry()
		berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)
		Eventually(admin.Standing(ctx, pods["paused"])).Should(HavePrefix("False ProfileDeleted"))
		aMinuteLater(ctx)
		Eventually(surfaces(ctx, registry, pods["paused"])).Should(And(
			HaveKeyWithValue("condition", "ProfileDeleted"), HaveKeyWithValue("why", "ProfileDeleted"), HaveKeyWithValue("berth_held_pods", "ProfileDeleted")))
		for word, pod := range pods {
			if d := expectDecision(ctx, pod); word != "paused" {
				Expect(d.Status.LastChange).To(Equal(since[word]), "since when %s is so, after two restarts", word)
			}
		}
		// Who waits at a handover may be told of it: no pod of another spec is.
		admin.ExpectBound(ctx, aPod(ctx, y.pod(aProfile(ctx), "last")))
	})
})

// checked are the findings of kubectl berth check, each as what it is about and what it says.
func checked(ctx context.Context) []string {
	GinkgoHelper()
	var found struct {
		Checks []struct{ Check, Message string }
	}
	Expect(json.Unmarshal([]byte(shell(ctx, "kubectl berth check -o json 2>/dev/null || true")), &found)).To(Succeed())
	var out []string
	for _, c := range found.Checks {
		out = append(out, c.Check+" "+c.Message)
	}
	return out
}

// surfaces returns what the places that users read say of a held pod.
func surfaces(ctx context.Context, registry *prometheus.Registry, pod *v1.Pod) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		said := map[string]string{}
		_, reason, _ := strings.Cut(admin.Standing(ctx, pod)(g), " ")
		said["condition"], _, _ = strings.Cut(reason, ":")
		for _, event := range told(ctx, pod)(g) {
			if strings.Contains(event, "FailedScheduling") {
				said["event"] = "FailedScheduling"
			}
		}
		if d, err := decisionOf(ctx, pod)(); err == nil {
			said["why"] = d.Status.BlockedBy
		}
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if name := family.GetName(); name != "berth_held_pods" && name != "berth_unserved_pods" {
				continue
			}
			for _, m := range family.GetMetric() {
				labels := map[string]string{}
				for _, pair := range m.GetLabel() {
					labels[pair.GetName()] = pair.GetValue()
				}
				switch {
				case labels["profile"] == pod.Spec.SchedulerName && m.GetGauge().GetValue() == 1:
					said[family.GetName()] = labels["reason"]
				case labels["scheduler_name"] == pod.Spec.SchedulerName:
					said[family.GetName()] = "nobody serves it"
				}
			}
		}
		return said
	}
}
