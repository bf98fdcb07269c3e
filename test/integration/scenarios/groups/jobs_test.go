package groups

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workloads are the objects whose controllers make the eight pods of a gang. Those of JobSet and
// LeaderWorkerSet have the shape of what these write, by their documentation.
var workloads = map[string]func(env testEnv, gang string) []client.Object{
	"a Job whose spec.scheduling asks for a gang": func(env testEnv, gang string) []client.Object {
		job := env.job(gang, "", 8)
		job.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{
			Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{MinCount: new(int32(8))},
		}}
		return []client.Object{job}
	},
	"an indexed Job with Berth's annotations": func(env testEnv, gang string) []client.Object {
		return []client.Object{env.job(gang, gang, 8)}
	},
	"the Jobs of a JobSet": func(env testEnv, gang string) []client.Object {
		driver, workers := env.job(gang+"-driver-0", gang, 1), env.job(gang+"-workers-0", gang, 7)
		for _, job := range []*batchv1.Job{driver, workers} {
			job.Spec.Template.Labels = map[string]string{"jobset.sigs.k8s.io/jobset-name": gang, "jobset.sigs.k8s.io/job-index": "0"}
		}
		return []client.Object{driver, workers}
	},
	"the StatefulSets of a LeaderWorkerSet": func(env testEnv, gang string) []client.Object {
		var sets []client.Object
		for name, count := range map[string]int32{gang: 1, gang + "-0": 7} {
			labels := map[string]string{"leaderworkerset.sigs.k8s.io/name": gang, "leaderworkerset.sigs.k8s.io/group-index": "0", "app": name}
			template := env.template(gang)
			template.Labels, template.Spec.RestartPolicy = labels, v1.RestartPolicyAlways
			sets = append(sets, &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name, Labels: labels},
				Spec: appsv1.StatefulSetSpec{
					Replicas: &count, ServiceName: gang, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
					PodManagementPolicy: appsv1.ParallelPodManagement, Ordinals: &appsv1.StatefulSetOrdinals{Start: int32(len(name) - len(gang))},
				},
			})
		}
		return sets
	},
}

// template returns the template of pods with four CPUs that name a group, if it is not empty, by
// Berth's annotations.
func (env testEnv) template(group string) v1.PodTemplateSpec {
	pod := env.pod("any", 4).Valid()
	template := v1.PodTemplateSpec{Spec: pod.Spec}
	template.Spec.RestartPolicy = v1.RestartPolicyNever
	if group != "" {
		template.Annotations = map[string]string{"berth.dev/pod-group": group, "berth.dev/pod-group-min-count": "8"}
	}
	return template
}

func (env testEnv) job(name, group string, pods int32) *batchv1.Job {
	mode := batchv1.IndexedCompletion
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name},
		Spec:       batchv1.JobSpec{Completions: &pods, Parallelism: &pods, CompletionMode: &mode, Template: env.template(group)},
	}
}

// podsOf returns how many pods of the objects of a gang there are, and how many have a node.
func (env testEnv) podsOf(ctx context.Context, owners []client.Object) func(Gomega) string {
	return func(g Gomega) string {
		var list v1.PodList
		g.Expect(admin.List(ctx, &list, client.InNamespace(env.namespace))).To(Succeed())
		all, bound := 0, 0
		for _, pod := range list.Items {
			if !isControlledByOneOf(&pod, owners) {
				continue
			}
			if all++; pod.Spec.NodeName != "" {
				bound++
			}
		}
		return fmt.Sprintf("%d pods, %d bound", all, bound)
	}
}

func isControlledByOneOf(pod *v1.Pod, owners []client.Object) bool {
	return slices.ContainsFunc(owners, func(owner client.Object) bool { return metav1.IsControlledBy(pod, owner) })
}

// deleteWithPods deletes the objects of a gang, and then their pods, for which no garbage
// collector runs.
func (env testEnv) deleteWithPods(ctx context.Context, owners []client.Object) {
	GinkgoHelper()
	for _, owner := range owners {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed())
	}
	var list v1.PodList
	Expect(admin.List(ctx, &list, client.InNamespace(env.namespace))).To(Succeed())
	for i := range list.Items {
		if isControlledByOneOf(&list.Items[i], owners) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, &list.Items[i], client.GracePeriodSeconds(0)))).To(Succeed())
		}
	}
}

var _ = Describe("Two gangs that controllers make, of which one fits", func() {
	for name, objects := range workloads {
		It("run one after the other: "+name, specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 6, 8)
			create := func(gang string) []client.Object {
				all := objects(env, gang)
				for _, object := range all {
					Expect(admin.Create(ctx, object)).To(Succeed())
				}
				DeferCleanup(func(ctx SpecContext) { env.deleteWithPods(ctx, all) }, NodeTimeout(eventuallyTimeout))
				return all
			}
			first := create("first")
			Eventually(env.podsOf(ctx, first)).Should(Equal("8 pods, 8 bound"))
			second := create("second")
			Eventually(env.podsOf(ctx, second)).Should(Equal("8 pods, 0 bound"))
			Eventually(func(g Gomega) (waiting int) {
				var list v1.PodList
				g.Expect(admin.List(ctx, &list, client.InNamespace(env.namespace))).To(Succeed())
				for i := range list.Items {
					if list.Items[i].Spec.NodeName == "" && admin.PodScheduled(ctx, &list.Items[i])(g) != "" {
						waiting++
					}
				}
				return waiting
			}).Should(Equal(8), "pods that were tried")
			Expect(env.podsOf(ctx, second)(Default)).To(Equal("8 pods, 0 bound"))
			env.deleteWithPods(ctx, first)
			Eventually(env.podsOf(ctx, second)).Should(Equal("8 pods, 8 bound"))
		})
	}
})
