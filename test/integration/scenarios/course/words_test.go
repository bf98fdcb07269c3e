package course

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// The words of this suite. Each object goes when its spec ends.

type edit = func(*v1alpha1.SchedulingProfileSpec)

// aProfile creates a profile of a name of its own and waits until it runs. It
// never flushes, so that a pod that fits nowhere is left to the events alone.
func aProfile(ctx context.Context, edits ...edit) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "course-"}}
	p.Spec.Queue.FlushAfterSeconds = new(int32(0))
	for _, edit := range edits {
		edit(&p.Spec)
	}
	apitest.Created(ctx, admin, p)
	expectReady(ctx, p)
	noteServed(p)
	return p
}

// swap edits a profile and waits until the edit runs.
func swap(ctx context.Context, p *v1alpha1.SchedulingProfile, edit edit) {
	GinkgoHelper()
	apitest.Change(ctx, admin, p, func(p *v1alpha1.SchedulingProfile) { edit(&p.Spec) })
	before := p.Status.Programmed.DeepCopy()
	expectReady(ctx, p)
	noteServed(p)
	Expect(p.Status.Programmed.Hash).NotTo(Equal(before.Hash), "another generation runs")
}

func expectReady(ctx context.Context, p *v1alpha1.SchedulingProfile) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		ready := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
		g.Expect(ready).To(HaveValue(SatisfyAll(
			HaveField("Status", metav1.ConditionTrue), HaveField("ObservedGeneration", p.Generation))))
	}).Should(Succeed())
}

// naming is an edit that touches no plugin.
func naming(topScores int32) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.TopScores = &topScores }
}

// backingOff lets a pod wait for so long after a failed attempt.
func backingOff(seconds int32) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Queue.InitialBackoffSeconds, s.Queue.MaxBackoffSeconds = &seconds, &seconds
	}
}

// aNode creates a node as it is written, status included, and waits until the
// scheduler has it: a pod that comes before all nodes do is refused for that.
func aNode(ctx context.Context, node *fixture.NodeBuilder) *v1.Node {
	GinkgoHelper()
	created := apitest.Created(ctx, admin, node.Obj())
	ring(ctx)
	return created
}

// pod starts a pod of the scene that goes at once when it is deleted.
func pod(name string) *fixture.PodBuilder {
	return fixture.Pod(scene + "/" + name).Mutate(func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(0)) })
}

// ranked is pod with a priority class: low, middle, high, highest, or patient,
// which is high and never preempts.
func ranked(name, class string) *fixture.PodBuilder {
	return pod(name).Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = class })
}

func rankClasses(ctx context.Context) {
	for i, name := range []string{"low", "middle", "high", "highest"} {
		Expect(admin.Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(100 * (i + 1)),
		})).To(Succeed())
	}
	Expect(admin.Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Value: 300, PreemptionPolicy: new(v1.PreemptNever),
	})).To(Succeed())
}

// aPod creates a pod that waits for p.
func aPod(ctx context.Context, p *v1alpha1.SchedulingProfile, builder *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	return apitest.Created(ctx, admin, builder.SchedulerName(p.Name).Valid())
}

// bound creates pods and waits until they have a node.
func bound(ctx context.Context, p *v1alpha1.SchedulingProfile, builders ...*fixture.PodBuilder) []*v1.Pod {
	GinkgoHelper()
	var pods []*v1.Pod
	for _, builder := range builders {
		pods = append(pods, aPod(ctx, p, builder))
	}
	admin.ExpectBound(ctx, pods...)
	return pods
}
