package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// asking is a pod's wish that takes a plugin to honour.
type asking struct {
	sentence, plugin, field string
	ask                     func(*fixture.PodBuilder) *fixture.PodBuilder
}

var askings = []asking{
	{"a resource claim", "DynamicResources", "spec.resourceClaims", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.Mutate(func(pod *v1.Pod) {
			pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		})
	}},
	{"a resource that DeviceClasses back", "DynamicResources", "spec.containers.resources.requests", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.Mutate(func(pod *v1.Pod) {
			one := fixture.Resources("deviceclass.resource.kubernetes.io/gpu", "1")
			pod.Spec.Containers = []v1.Container{{Name: "c0", Resources: v1.ResourceRequirements{Requests: one, Limits: one}}}
		})
	}},
	{"a volume by a claim", "VolumeBinding", "spec.volumes", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.Claim("data")
	}},
	{"an ephemeral volume", "VolumeBinding", "spec.volumes", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.Mutate(func(pod *v1.Pod) {
			spec := v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources:   v1.VolumeResourceRequirements{Requests: fixture.Resources("storage", "1Gi")},
			}
			pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{
				Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: spec}},
			}}}
		})
	}},
	{"a hard spread", "PodTopologySpread", "spec.topologySpreadConstraints", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.Spread(v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
		})
	}},
	{"required affinity to pods", "InterPodAffinity", "spec.affinity.podAffinity", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "db"))
	}},
	{"required anti-affinity to pods", "InterPodAffinity", "spec.affinity.podAntiAffinity", func(b *fixture.PodBuilder) *fixture.PodBuilder {
		return b.RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web"))
	}},
	gang,
}

// gang is what no plugin of this build will honour soon. Kubernetes 1.35 has another
// field for it, which clients of today do not know.
var gang = asking{"a scheduling group", "", "spec.schedulingGroup", func(b *fixture.PodBuilder) *fixture.PodBuilder {
	return b.Mutate(func(pod *v1.Pod) { pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("gang")} })
}}

const gangSince = 36

// gangFlags have the API server keep the field: one that it drops cannot be held
// against a pod.
func gangFlags() []string {
	switch {
	case serverMinor < gangSince:
		return nil
	case serverMinor == gangSince: // its admission looks for kinds that are off
		return []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"}
	}
	return []string{"--feature-gates=GenericWorkload=true"}
}

// unhonoured asks for what no plugin of this build honours, by a field that the API
// server has.
func unhonoured(b *fixture.PodBuilder) *fixture.PodBuilder {
	GinkgoHelper()
	if serverMinor >= gangSince {
		return gang.ask(b)
	}
	claim := askings[0]
	if _, here := plugins.InTree()[claim.plugin]; here {
		Skip(fmt.Sprintf("this build honours all that a pod can ask for on Kubernetes before 1.%d", gangSince))
	}
	return claim.ask(b)
}

var _ = Describe("A pod that asks for what this build does not do yet", func() {
	registry := plugins.InTree()
	for _, a := range askings {
		if _, here := registry[a.plugin]; here {
			continue
		}
		It("is held with Unsupported and the field's name: "+a.sentence, minute, func(ctx SpecContext) {
			if is := serverMinor; a.field == gang.field && is < gangSince {
				Skip(fmt.Sprintf("Kubernetes 1.%d has no %s: it came with 1.%d", is, gang.field, gangSince))
			}
			y, p := aYard(ctx), aProfile(ctx)
			seen := watching(ctx, y)
			aNode(ctx, y.node("n"))
			pod := aPod(ctx, a.ask(y.pod(p, "web")))
			expectHeld(ctx, "Unsupported: "+a.field, pod)
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Held: 1}))

			By("while others go on")
			admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "other")))
			expectHeld(ctx, "Unsupported: "+a.field, pod)
			Expect(seen.standings(pod)()).To(HaveExactElements(HavePrefix("False Unsupported: ")), "never Unschedulable")
			Expect(told(ctx, pod)(Default)).To(ConsistOf(HavePrefix("Warning FailedScheduling Scheduling by " + p.Name + ": " + a.field)))
		})
	}

	It("is not held for a mere preference", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "web").
			PreferPodAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")).
			PreferPodAntiAffinity(1, fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")).
			Spread(v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{},
			})))
	})

	It("loses an older Unschedulable: autoscalers buy nodes for that word", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		pod := aPod(ctx, unhonoured(y.pod(p, "web").SchedulerName(y.name)))
		pod.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
			Message: "0/9 nodes are available: 9 Insufficient cpu.",
		}}
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		aProfileNamed(ctx, y.name)
		expectHeld(ctx, "Unsupported", pod)
	})
})

// classesBackSince is the minor version of Kubernetes from which the API server keeps
// spec.extendedResourceName of a DeviceClass by default.
const classesBackSince = 36

var _ = Describe("A pod that requests an extended resource", func() {
	It("is held while a DeviceClass backs the resource, whichever comes first", minute, func(ctx SpecContext) {
		if _, here := plugins.InTree()["DynamicResources"]; here {
			Skip("this build schedules by devices")
		}
		if serverMinor < classesBackSince {
			Skip(fmt.Sprintf("DeviceClasses back extended resources by default from Kubernetes 1.%d on", classesBackSince))
		}
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		resource := "example.com/" + y.name
		wanting := func(name string) *v1.Pod {
			one := fixture.Resources(resource, "1")
			return aPod(ctx, y.pod(p, name).Mutate(func(pod *v1.Pod) {
				pod.Spec.Containers = []v1.Container{{Name: "c0", Resources: v1.ResourceRequirements{Requests: one, Limits: one}}}
			}))
		}
		before := wanting("before")
		expectHeld(ctx, v1.PodReasonUnschedulable, before)
		class := &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: y.name}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &resource},
		}
		Expect(admin.Create(ctx, class)).To(Succeed())
		const held = "Unsupported: spec.containers.resources.requests"
		expectHeld(ctx, held, before, wanting("after"))
		aNode(ctx, y.node("n").Capacity(resource, "9"))

		By("and is tried when the class is gone")
		Expect(admin.Delete(ctx, class)).To(Succeed())
		admin.ExpectBound(ctx, before)
		admin.ExpectBound(ctx, wanting("late"))
	})
})

var _ = Describe("A pod with scheduling gates", func() {
	It("waits until the last one is taken away", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		seen := watching(ctx, y)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web").SchedulingGate("example.com/quota").SchedulingGate("example.com/image"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "other")))

		apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { pod.Spec.SchedulingGates = pod.Spec.SchedulingGates[1:] })
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "another")))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Gated: 1}))
		expectHeld(ctx, v1.PodReasonSchedulingGated, pod)

		apitest.Change(ctx, admin, pod, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
		Expect(recordOf(ctx, pod).Attempts).To(Equal(1))
		Expect(seen.standings(pod)()).To(HaveEach(Not(ContainSubstring("Unschedulable"))))
	})
})

var _ = Describe("A pod of another scheduler", func() {
	It("is left alone", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		// A leader that has just begun fences pods of every name that Berth ever served:
		// it is done when it has bound one.
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "first")))
		theirs := []*v1.Pod{
			aPod(ctx, y.pod(p, "default").SchedulerName(v1.DefaultSchedulerName)),
			aPod(ctx, y.pod(p, "another").SchedulerName("another-scheduler")),
			aPod(ctx, y.pod(p, "greedy").SchedulerName("another-scheduler").Requests("cpu", "1000")),
		}
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "ours")))
		for _, pod := range theirs {
			version := pod.ResourceVersion
			Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())
			Expect(pod.ResourceVersion).To(Equal(version), "nobody wrote to %s", pod.Name)
			Expect(told(ctx, pod)(Default)).To(BeEmpty())
		}
	})
})
