package groups

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// source is a way in which pods name their group.
type source struct {
	// declare creates what the group of eight pods has beside its pods; may be nil.
	declare func(ctx context.Context, env testEnv, group string)
	// name makes a pod a member.
	name func(pod *v1.Pod, group string)
}

var sources = map[string]source{
	"spec.schedulingGroup": {
		func(ctx context.Context, env testEnv, group string) { env.podGroup(ctx, group, 8) },
		func(pod *v1.Pod, group string) {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		},
	},
	"Berth's annotations": {nil, func(pod *v1.Pod, group string) {
		pod.Annotations = map[string]string{"berth.dev/pod-group": group, "berth.dev/pod-group-min-count": "8"}
	}},
	"the label of the coscheduling plugin": {
		func(ctx context.Context, env testEnv, group string) {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(8)}}}
			object.SetGroupVersionKind(podgroups.CoschedulingResource.GroupVersion().WithKind("PodGroup"))
			object.SetNamespace(env.namespace)
			object.SetName(group)
			Expect(admin.Create(ctx, object)).To(Succeed())
		},
		func(pod *v1.Pod, group string) {
			pod.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": group}
		},
	},
	"the label of Kueue": {nil, func(pod *v1.Pod, group string) {
		pod.Labels = map[string]string{"kueue.x-k8s.io/pod-group-name": group}
		pod.Annotations = map[string]string{"kueue.x-k8s.io/pod-group-total-count": "8"}
	}},
}

// gang creates a gang of eight pods with four CPUs.
func (env testEnv) gang(ctx context.Context, source source, group string) (pods []*v1.Pod) {
	GinkgoHelper()
	if source.declare != nil {
		source.declare(ctx, env, group)
	}
	for i := range 8 {
		pods = append(pods, admin.Pod(ctx, env.pod(fmt.Sprint(group, "-", i), 4).Mutate(func(pod *v1.Pod) { source.name(pod, group) })))
	}
	return pods
}

var _ = Describe("Two gangs of eight pods, of which twelve fit", func() {
	for name, source := range sources {
		It("run one after the other, named by "+name, specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 6, 8)
			first := env.gang(ctx, source, "first")
			admin.ExpectBound(ctx, first...)

			By("the other waits, none of its pods has a node, and each says why")
			second := env.gang(ctx, source, "second")
			expectWaiting(ctx, second...)
			Eventually(func(g Gomega) {
				fits, lacks := 0, 0
				for _, pod := range second {
					g.Expect(admin.NodeName(ctx, pod)(g)).To(BeEmpty())
					switch condition := admin.PodScheduled(ctx, pod)(g); condition {
					case "False Unschedulable: minCount (8) cannot be satisfied: 4 scheduled, 3 remaining, pod group preemption: No preemption victims found for incoming preemptor":
						fits++
					default:
						g.Expect(condition).To(ContainSubstring("0/6 nodes are available: 6 Insufficient cpu."))
						lacks++
					}
				}
				g.Expect(fits).To(Equal(7), "four fit, and three need not be tried")
				g.Expect(lacks).To(Equal(1))
			}).Should(Succeed())
			Eventually(func(g Gomega) {
				var events eventsv1.EventList
				g.Expect(admin.List(ctx, &events, client.InNamespace(env.namespace))).To(Succeed())
				failed := map[string]bool{}
				for _, event := range events.Items {
					if event.Reason == "FailedScheduling" {
						failed[event.Regarding.Name] = true
					}
				}
				g.Expect(failed).To(HaveLen(8))
			}).Should(Succeed())

			By("the first is deleted, and the other runs")
			for _, pod := range first {
				admin.Remove(ctx, pod)
			}
			admin.ExpectBound(ctx, second...)
		})
	}
})
