package course

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

type edit = func(*v1alpha1.SchedulingProfileSpec)

// createProfile creates a profile with a generated name and waits until it runs.
// Unschedulable pods are requeued by events only.
func createProfile(ctx context.Context, edits ...edit) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "course-"}}
	p.Spec.Queue.FlushAfterSeconds = new(int32(0))
	for _, edit := range edits {
		edit(&p.Spec)
	}
	apitest.Created(ctx, admin, p)
	expectReady(ctx, p)
	recordGeneration(p)
	return p
}

// swapProfile edits a profile and waits until the edit runs.
func swapProfile(ctx context.Context, p *v1alpha1.SchedulingProfile, edit edit) {
	GinkgoHelper()
	apitest.Change(ctx, admin, p, func(p *v1alpha1.SchedulingProfile) { edit(&p.Spec) })
	before := p.Status.Programmed.DeepCopy()
	expectReady(ctx, p)
	recordGeneration(p)
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

// setTopScores is an edit that changes no plugin.
func setTopScores(topScores int32) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.TopScores = &topScores }
}

// setBackoff sets the backoff after a failed attempt.
func setBackoff(seconds int32) edit {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Queue.InitialBackoffSeconds, s.Queue.MaxBackoffSeconds = &seconds, &seconds
	}
}

// createNode creates a node, status included, and waits until the scheduler has it: a pod
// that is created earlier is unschedulable.
func createNode(ctx context.Context, node *fixture.NodeBuilder) *v1.Node {
	GinkgoHelper()
	created := apitest.Created(ctx, admin, node.Obj())
	waitForQueue(ctx)
	return created
}

// pod starts a pod of the suite's namespace without grace period.
func pod(name string) *fixture.PodBuilder {
	return fixture.Pod(namespace + "/" + name).Mutate(func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(0)) })
}

// podWithClass returns a pod with the priority class low, middle, high, highest, or
// patient, which has high's value and preemptionPolicy Never.
func podWithClass(name, class string) *fixture.PodBuilder {
	return pod(name).Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = class })
}

func createPriorityClasses(ctx context.Context) {
	for i, name := range []string{"low", "middle", "high", "highest"} {
		Expect(admin.Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(100 * (i + 1)),
		})).To(Succeed())
	}
	Expect(admin.Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "patient"}, Value: 300, PreemptionPolicy: new(v1.PreemptNever),
	})).To(Succeed())
}

// createPod creates a pod of the profile.
func createPod(ctx context.Context, p *v1alpha1.SchedulingProfile, builder *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	return apitest.Created(ctx, admin, builder.SchedulerName(p.Name).Valid())
}

// createBound creates pods and waits until they are bound.
func createBound(ctx context.Context, p *v1alpha1.SchedulingProfile, builders ...*fixture.PodBuilder) []*v1.Pod {
	GinkgoHelper()
	var pods []*v1.Pod
	for _, builder := range builders {
		pods = append(pods, createPod(ctx, p, builder))
	}
	admin.ExpectBound(ctx, pods...)
	return pods
}

// expectRefused waits until the pods are unschedulable in condition and queue.
func expectRefused(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False Unschedulable"), pod.Name)
		Eventually(queuePlace(pod)).Should(Equal(queue.Unschedulable), pod.Name)
	}
}

// expectGone waits until the API server no longer has the pods.
func expectGone(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pod), &v1.Pod{}))
		}).Should(BeTrue(), pod.Name)
	}
}

// queuePlace returns the pod's place in the queue, empty if it is not there.
func queuePlace(pod *v1.Pod) func() queue.Place {
	return func() queue.Place { return berth.Scheduler().Components().Queue.Places()[pod.UID] }
}

// attempts returns the number of attempts of a pod that the ledger has.
func attempts(p *v1alpha1.SchedulingProfile, pod *v1.Pod) func() int {
	return func() int {
		page, _ := berth.Ledger().History(p.Name, 50)
		tried := 0
		for _, d := range page.Recent {
			if d.UID == pod.UID {
				tried = max(tried, d.Attempts)
			}
		}
		return tried
	}
}

// queueCounts returns how many pods of a profile are in each place.
func queueCounts(p *v1alpha1.SchedulingProfile) func() decision.QueueCounts {
	return func() decision.QueueCounts { return berth.Scheduler().QueueCounts(p.Name) }
}

// servedGenerations are the generations since the manager started that may still call
// plugins.
var servedGenerations []*profile.Generation

// recordGeneration adds the generation that runs now.
func recordGeneration(p *v1alpha1.SchedulingProfile) {
	if g, ok := berth.Scheduler().Profiles().Acquire(p.Name); ok {
		servedGenerations = append(servedGenerations, g)
		g.Release()
	}
}

func isClosed(g *profile.Generation) bool {
	select {
	case <-g.Closed():
		return true
	default:
		return false
	}
}

// remainingObjects names what the scheduler still has of an earlier spec. PostBind of a
// deleted pod may still be called: only a closed generation calls its plugins no more.
func remainingObjects() (names []string) {
	GinkgoHelper()
	servedGenerations = slices.DeleteFunc(servedGenerations, isClosed)
	for _, g := range servedGenerations {
		names = append(names, "profile "+g.Blueprint().Name)
	}
	nodes, err := berth.Informers().Core().V1().Nodes().Lister().List(labels.Everything())
	Expect(err).NotTo(HaveOccurred())
	for _, node := range nodes {
		names = append(names, "node "+node.Name)
	}
	pods, err := berth.Informers().Core().V1().Pods().Lister().List(labels.Everything())
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods {
		if pod.Name != sentinelPod {
			names = append(names, "pod "+pod.Name)
		}
	}
	return names
}
