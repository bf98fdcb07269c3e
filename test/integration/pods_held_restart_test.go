package integration

import (
	"context"
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
)

// heldBy is what a profile does to its pods, and the reason that users read.
var heldBy = map[string]func(*v1alpha1.SchedulingProfileSpec){
	"ProfilePaused":       inState(v1alpha1.StatePaused),
	"NamespaceNotAllowed": forTeam("none"),
	"ProfileNotRunning":   scoring("NoSuch"),
	"ProfileDeleted":      func(*v1alpha1.SchedulingProfileSpec) {},
}

var _ = Describe("Pods that are held for another reason than room", func() {
	It("say so in every place, before a restart of Berth and after it", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		y := aYard(ctx)
		aNode(ctx, y.node("n"))
		stopManager()
		registry := prometheus.NewRegistry()
		berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)

		pods := map[string]*v1.Pod{}
		for _, reason := range slices.Sorted(maps.Keys(heldBy)) {
			p := aProfileNamed(ctx, y.name+"-"+strings.ToLower(reason), heldBy[reason])
			if reason == "ProfileDeleted" {
				expectReady(ctx, p)
				pods[reason] = aPod(ctx, y.pod(p, strings.ToLower(reason)).Requests("cpu", "1000"))
				expectHeld(ctx, v1.PodReasonUnschedulable, pods[reason])
				Expect(admin.Delete(ctx, p)).To(Succeed())
				continue
			}
			pods[reason] = aPod(ctx, y.pod(p, strings.ToLower(reason)))
		}

		for _, when := range []string{"before", "after"} {
			By(when)
			for reason, pod := range pods {
				Eventually(surfaces(ctx, registry, pod)).Should(Equal(map[string]string{
					"condition": reason, "event": "FailedScheduling", "why": reason, "berth_held_pods": reason,
				}), "%s %s", reason, when)
			}
			stopManager()
			registry = prometheus.NewRegistry()
			berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)
		}

		By("whose profile is deleted while Berth is away")
		stopManager()
		gone := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: pods["ProfilePaused"].Spec.SchedulerName}}
		Expect(admin.Delete(ctx, gone)).To(Succeed())
		registry = prometheus.NewRegistry()
		berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)
		Eventually(admin.Standing(ctx, pods["ProfilePaused"])).Should(HavePrefix("False ProfileDeleted"))
		aMinuteLater(ctx)
		Eventually(surfaces(ctx, registry, pods["ProfilePaused"])).Should(And(
			HaveKeyWithValue("condition", "ProfileDeleted"), HaveKeyWithValue("why", "ProfileDeleted"), HaveKeyWithValue("berth_held_pods", "ProfileDeleted")))
		// Who waits at a handover may be told of it: no pod of another spec is.
		admin.ExpectBound(ctx, aPod(ctx, y.pod(aProfile(ctx), "last")))
	})
})

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
			if family.GetName() != "berth_held_pods" {
				continue
			}
			for _, m := range family.GetMetric() {
				labels := map[string]string{}
				for _, pair := range m.GetLabel() {
					labels[pair.GetName()] = pair.GetValue()
				}
				if labels["profile"] == pod.Spec.SchedulerName && m.GetGauge().GetValue() == 1 {
					said[family.GetName()] = labels["reason"]
				}
			}
		}
		return said
	}
}
