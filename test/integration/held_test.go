package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// schedulingGroupSince is the minor version of Kubernetes from which the field has the name
// that today's clients know.
const schedulingGroupSince = 36

// schedulingGroupFlags are API server flags that keep the field: Berth cannot see a field
// that the API server drops.
func schedulingGroupFlags() []string {
	switch {
	case serverMinor < schedulingGroupSince:
		return nil
	case serverMinor == schedulingGroupSince: // its admission needs these kinds
		return []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"}
	}
	return []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}
}

// requireSchedulingGroup skips a spec where the API server has no spec.schedulingGroup.
func requireSchedulingGroup() {
	GinkgoHelper()
	if serverMinor < schedulingGroupSince {
		Skip(fmt.Sprintf("pods have no spec.schedulingGroup on Kubernetes before 1.%d", schedulingGroupSince))
	}
}

var _ = Describe("A pod that names a group under a profile without GangScheduling", func() {
	It("is scheduled on its own, as by kube-scheduler with its gate off", minute, func(ctx SpecContext) {
		requireSchedulingGroup()
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "web").Mutate(func(pod *v1.Pod) {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("gang")}
		})))
	})
})

var _ = Describe("A group of pods", func() {
	It("is scheduled whole, and its PodGroup says so", minute, func(ctx SpecContext) {
		if serverMinor <= schedulingGroupSince {
			Skip("PodGroups of scheduling.k8s.io/v1beta1 are of Kubernetes 1.37")
		}
		env, p := newTestEnv(ctx), createProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) {
			s.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}
		})
		createNode(ctx, env.node("n"))
		group := apitest.Created(ctx, admin, &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "gang"},
			Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2},
			}},
		})
		member := func(name string) *v1.Pod {
			return createPod(ctx, env.pod(p, name).Mutate(func(pod *v1.Pod) {
				pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group.Name}
			}))
		}
		first := member("first")
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		admin.ExpectBound(ctx, first, member("second"))
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
			g.Expect(group.Status.Conditions).To(ConsistOf(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Scheduled"))))
		}).Should(Succeed())
	})
})

var _ = Describe("A pod with preferences", func() {
	It("is bound where they are not met", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "web").
			PreferPodAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")).
			PreferPodAntiAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")).
			Spread(v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
			})))
	})
})

var _ = Describe("A pod that is held", func() {
	It("loses an older Unschedulable, for which autoscalers add nodes", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		pod := createPod(ctx, fixture.Pod(env.namespace+"/web").SchedulerName(env.namespace))
		pod.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
			Message: "0/9 nodes are available: 9 Insufficient cpu.",
		}}
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		createProfileNamed(ctx, env.namespace, setState(v1alpha1.StatePaused))
		expectReason(ctx, "ProfilePaused", pod)
	})
})

var _ = Describe("A pod with scheduling gates", func() {
	It("waits until the last one is removed", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		watch := watchPods(ctx, env)
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web").SchedulingGate("example.com/quota").SchedulingGate("example.com/image"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "other")))

		apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[1:] })
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "another")))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		expectReason(ctx, v1.PodReasonSchedulingGated, pod)

		apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		Expect(boundRecord(ctx, pod).Attempts).To(Equal(1))
		Expect(watch.conditionChanges(pod)()).To(HaveEach(Not(ContainSubstring("Unschedulable"))))
	})
})

var _ = Describe("A pod of another scheduler", func() {
	It("is not written to", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		// A new leader fences pods of every name that Berth has served. It has finished
		// when it binds a pod.
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "first")))
		foreign := []*v1.Pod{
			createPod(ctx, env.pod(p, "default").SchedulerName(v1.DefaultSchedulerName)),
			createPod(ctx, env.pod(p, "another").SchedulerName("another-scheduler")),
			createPod(ctx, env.pod(p, "large").SchedulerName("another-scheduler").Requests("cpu", "1000")),
		}
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "own")))
		for _, pod := range foreign {
			version := pod.ResourceVersion
			Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())
			Expect(pod.ResourceVersion).To(Equal(version), "no write to %s", pod.Name)
			Expect(podEvents(ctx, pod)(Default)).To(BeEmpty())
		}
	})
})

// holdReasons has a profile for each reason to hold pods.
var holdReasons = map[string]struct {
	// reason is the reason of the condition.
	reason string
	edit   func(*v1alpha1.SchedulingProfileSpec)
}{
	"paused":  {reason: "ProfilePaused", edit: setState(v1alpha1.StatePaused)},
	"others":  {reason: "NamespaceNotAllowed", edit: allowTeam("none")},
	"refused": {reason: "ProfileNotRunning", edit: enableScore("NoSuch")},
	"awaits":  {reason: "ProfileNotRunning", edit: func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual }},
	"deleted": {reason: "ProfileDeleted"},
}

var _ = Describe("Held pods", func() {
	BeforeEach(buildKubectlPlugin, NodeTimeout(10*time.Minute))

	It("show the same reason in condition, Event, metric and kubectl, before and after a restart", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		env := newTestEnv(ctx)
		createNode(ctx, env.node("n"))
		stopManager()
		registry := prometheus.NewRegistry()
		berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)

		pods := map[string]*v1.Pod{}
		for _, key := range slices.Sorted(maps.Keys(holdReasons)) {
			by := holdReasons[key]
			var edits []func(*v1alpha1.SchedulingProfileSpec)
			if by.edit != nil {
				edits = append(edits, by.edit)
			}
			p := createProfileNamed(ctx, env.namespace+"-"+key, edits...)
			pod := env.pod(p, key)
			if key == "deleted" {
				expectReady(ctx, p)
				pods[key] = createPod(ctx, pod.Requests("cpu", "1000"))
				expectReason(ctx, v1.PodReasonUnschedulable, pods[key])
				Expect(admin.Delete(ctx, p)).To(Succeed())
				expectReason(ctx, by.reason, pods[key])
				advanceMinute(ctx) // it was explained with another reason before
				continue
			}
			pods[key] = createPod(ctx, pod)
		}

		since := map[string]metav1.Time{}
		for _, when := range []string{"before", "after"} {
			By(when)
			for key, pod := range pods {
				reason := holdReasons[key].reason
				Eventually(reportedReasons(ctx, registry, pod)).Should(Equal(map[string]string{
					"condition": reason, "event": "FailedScheduling", "why": reason, "berth_held_pods": reason,
				}), "%s %s", key, when)
				output := shell(ctx, "kubectl berth explain pod/"+pod.Name+" -n "+pod.Namespace)
				Expect(output).To(And(MatchRegexp(`Condition +PodScheduled=False \(%s\), `, reason), MatchRegexp(`Blocked by +%s\n`, reason)), "%s %s", key, when)
				Expect(checkFindings(ctx)).To(ContainElement(And(
					HavePrefix("pods 1 pod of profile "+pod.Spec.SchedulerName+" held (first: "+pod.Namespace+"/"+pod.Name+"): "+reason+": "))), "%s %s", key, when)
				if when == "before" {
					since[key] = expectDecision(ctx, pod).Status.LastChange
				}
			}
			stopManager()
			registry = prometheus.NewRegistry()
			berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)
		}

		By("the profile is deleted while no manager runs")
		stopManager()
		deleted := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: pods["paused"].Spec.SchedulerName}}
		Expect(admin.Delete(ctx, deleted)).To(Succeed())
		registry = prometheus.NewRegistry()
		berth = runManager(accountConfig(ctx), nil, suiteOptions(manager.WithMetricsRegistry(registry))...)
		Eventually(admin.PodScheduled(ctx, pods["paused"])).Should(HavePrefix("False ProfileDeleted"))
		advanceMinute(ctx)
		Eventually(reportedReasons(ctx, registry, pods["paused"])).Should(And(
			HaveKeyWithValue("condition", "ProfileDeleted"), HaveKeyWithValue("why", "ProfileDeleted"), HaveKeyWithValue("berth_held_pods", "ProfileDeleted")))
		for key, pod := range pods {
			if d := expectDecision(ctx, pod); key != "paused" {
				Expect(d.Status.LastChange).To(Equal(since[key]), "the time of %s is kept over two restarts", key)
			}
		}
		// A new leader may write to pending pods. It has finished with those of other specs
		// when it binds a pod.
		admin.ExpectBound(ctx, createPod(ctx, env.pod(createProfile(ctx), "last")))
	})
})

// checkFindings returns the findings of `kubectl berth check` as "check message".
func checkFindings(ctx context.Context) []string {
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

// reportedReasons returns the reason of a held pod by the place that shows it.
func reportedReasons(ctx context.Context, registry *prometheus.Registry, pod *v1.Pod) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		reasons := map[string]string{}
		_, reason, _ := strings.Cut(admin.PodScheduled(ctx, pod)(g), " ")
		reasons["condition"], _, _ = strings.Cut(reason, ":")
		for _, event := range podEvents(ctx, pod)(g) {
			if strings.Contains(event, "FailedScheduling") {
				reasons["event"] = "FailedScheduling"
			}
		}
		if d, err := getDecision(ctx, pod)(); err == nil {
			reasons["why"] = d.Status.BlockedBy
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
					reasons[family.GetName()] = labels["reason"]
				case labels["scheduler_name"] == pod.Spec.SchedulerName:
					reasons[family.GetName()] = "no scheduler serves it"
				}
			}
		}
		return reasons
	}
}
