package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// No kubelet runs: a victim terminates until the spec removes it.
var _ = Describe("A pod with a higher priority", func() {
	It("evicts pods of lower priority, and is bound when they are gone", minute, func(ctx SpecContext) {
		env, p, classes := newTestEnv(ctx), createProfile(ctx, neverFlush, publishEvery(1)), createPriorityClasses(ctx, 2, v1.PreemptLowerPriority)
		node := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		low := []*v1.Pod{createPod(ctx, withPriorityClass(env.pod(p, "a").Requests("cpu", "1"), classes[0])), createPod(ctx, withPriorityClass(env.pod(p, "b").Requests("cpu", "1"), classes[0]))}
		admin.ExpectBound(ctx, low...)
		big := createPod(ctx, withPriorityClass(env.pod(p, "big").Requests("cpu", "2"), classes[1]))

		By("it is nominated, and the victims have a condition and an Event")
		Eventually(admin.NominatedNode(ctx, big)).Should(Equal(node.Name))
		Eventually(admin.PodScheduled(ctx, big)).Should(HavePrefix("False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. " +
			"preemption: found a potential placement for pod on node " + node.Name + ", preempting 2 victims"))
		for _, victim := range low {
			Eventually(disruptionTarget(ctx, victim)).Should(Equal("True PreemptionByScheduler: " + p.Name + ": preempting to accommodate a higher priority pod"))
			Eventually(podEvents(ctx, victim)).Should(ContainElement(
				fmt.Sprintf("Normal Preempted Preempting by %s: Preempted by pod %s on node %s", p.Name, big.UID, node.Name)))
		}

		By("the room is kept for it")
		admin.Remove(ctx, low[0])
		small := createPod(ctx, withPriorityClass(env.pod(p, "small").Requests("cpu", "1"), classes[0]))
		expectReason(ctx, v1.PodReasonUnschedulable, small)
		Expect(admin.NodeName(ctx, big)(Default)).To(BeEmpty())

		admin.Remove(ctx, low[1])
		Eventually(admin.NodeName(ctx, big)).Should(Equal(node.Name))
		Expect(big.Status.NominatedNodeName).To(BeEmpty(), "a bound pod has no nomination")
		Eventually(publishedTotals(ctx, p)).Should(HaveField("Victims", BeEquivalentTo(2)))
	})

	It("spares pods that a PodDisruptionBudget protects if others suffice", minute, func(ctx SpecContext) {
		env, p, classes := newTestEnv(ctx), createProfile(ctx, neverFlush), createPriorityClasses(ctx, 3, v1.PreemptLowerPriority)
		var low [2]*v1.Pod
		for i, app := range []string{"kept", "free"} {
			node := createNode(ctx, env.node(app).Capacity("cpu", "1"))
			low[i] = createPod(ctx, withPriorityClass(env.pod(p, app).Label("app", app).Requests("cpu", "1").NodeSelector(v1.LabelHostname, node.Name), classes[i]))
		}
		admin.ExpectBound(ctx, low[:]...)
		createBudget(ctx, env, "kept")
		first := createPod(ctx, withPriorityClass(env.pod(p, "first").Requests("cpu", "1"), classes[2]))
		Eventually(admin.NominatedNode(ctx, first)).Should(Equal(low[1].Spec.NodeName), "although that pod has a higher priority")
		Expect(disruptionTarget(ctx, low[0])(Default)).To(BeEmpty())

		By("it evicts them if no others suffice")
		second := createPod(ctx, withPriorityClass(env.pod(p, "second").Requests("cpu", "1"), classes[2]))
		Eventually(admin.NominatedNode(ctx, second)).Should(Equal(low[0].Spec.NodeName))
		Eventually(disruptionTarget(ctx, low[0])).ShouldNot(BeEmpty())
	})

	It("evicts no pod when its preemptionPolicy is Never", minute, func(ctx SpecContext) {
		env, p, classes := newTestEnv(ctx), createProfile(ctx, neverFlush), createPriorityClasses(ctx, 2, v1.PreemptNever)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		low := createPod(ctx, withPriorityClass(env.pod(p, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		high := createPod(ctx, withPriorityClass(env.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.PodScheduled(ctx, high)).Should(HaveSuffix("preemption: not eligible due to preemptionPolicy=Never."))
		Expect(high.Status.NominatedNodeName).To(BeEmpty())
		Expect(disruptionTarget(ctx, low)(Default)).To(BeEmpty())
	})

	It("leaves its room to others when it is deleted", minute, func(ctx SpecContext) {
		env, p, classes := newTestEnv(ctx), createProfile(ctx, neverFlush), createPriorityClasses(ctx, 2, v1.PreemptLowerPriority)
		node := createNode(ctx, env.node("n").Capacity("cpu", "1"))
		low := createPod(ctx, withPriorityClass(env.pod(p, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		high := createPod(ctx, withPriorityClass(env.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.NominatedNode(ctx, high)).Should(Equal(node.Name))
		nominated := func() int { return len(berth.Scheduler().Components().Cache.NominatedPodsForNode(node.Name)) }
		Expect(nominated()).To(Equal(1))
		admin.Remove(ctx, high)
		Eventually(nominated).Should(BeZero())
		next := createPod(ctx, withPriorityClass(env.pod(p, "next").Requests("cpu", "1"), classes[0]))
		expectReason(ctx, v1.PodReasonUnschedulable, next)
		admin.Remove(ctx, low)
		admin.ExpectBound(ctx, next)
	})

	It("preempts an assumed pod without deleting it", minute, func(ctx SpecContext) {
		env, classes := newTestEnv(ctx), createPriorityClasses(ctx, 2, v1.PreemptLowerPriority)
		slow, p := createProfile(ctx, neverFlush, blockAt(permitSet)), createProfile(ctx, neverFlush)
		expectReady(ctx, slow)
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		allow := gates.permit.shutGate()
		defer allow()
		low := createPod(ctx, withPriorityClass(env.pod(slow, "low").Requests("cpu", "1"), classes[0]))
		Eventually(queueCounts(slow)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		high := createPod(ctx, withPriorityClass(env.pod(p, "high").Requests("cpu", "1"), classes[1]))
		admin.ExpectBound(ctx, high)
		Eventually(queueCounts(slow)).Should(Equal(decision.QueueCounts{Unschedulable: 1}))
		Expect(disruptionTarget(ctx, low)(Default)).To(BeEmpty(), "it is not deleted")
		Eventually(admin.NominatedNode(ctx, low)).Should(BeEmpty())
	})
})

// withPriorityClass sets the priority class of a pod.
func withPriorityClass(pod *fixture.PodBuilder, class string) *fixture.PodBuilder {
	return pod.Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = class })
}

// disruptionTarget reads a pod and, when it terminates, returns its condition
// DisruptionTarget as "status reason: message".
func disruptionTarget(ctx context.Context, pod *v1.Pod) func(g Gomega) string {
	return func(g Gomega) string {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if pod.DeletionTimestamp == nil {
			return ""
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.DisruptionTarget {
				return fmt.Sprint(c.Status, " ", c.Reason, ": ", c.Message)
			}
		}
		return "terminates without a reason"
	}
}

// createBudget protects the pods of an app. No controller runs that would update its
// status.
func createBudget(ctx context.Context, env testEnv, app string) {
	GinkgoHelper()
	least := intstr.FromInt32(1)
	budget := apitest.Created(ctx, admin, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: fixture.LabelSelector("app", app)},
	})
	expectObserved(budget, berth.Informers().Policy().V1().PodDisruptionBudgets().Lister().PodDisruptionBudgets(env.namespace).Get)
}

// The spec creates evicted pods again, as their owner would.
var _ = Describe("Two profiles whose pods evict each other's", func() {
	It("settle, and each preemptor evicts only as many pods as it needs", minute, func(ctx SpecContext) {
		const rivals, places = 6, 2
		env, classes := newTestEnv(ctx), createPriorityClasses(ctx, rivals, v1.PreemptLowerPriority)
		both := []*v1alpha1.SchedulingProfile{createProfile(ctx, neverFlush), createProfile(ctx, neverFlush)}
		node := createNode(ctx, env.node("n").Capacity("cpu", fmt.Sprint(places)))
		group := &rivalPods{testEnv: env, profiles: both, pods: map[string]*v1.Pod{}}
		for rank := range rivals {
			group.create(ctx, both[rank%2], classes[rank])
			// The pod of the lowest priority is evicted for the newest, and created again.
			Eventually(func(g Gomega) {
				group.replaceTerminated(ctx, g)
				g.Expect(group.boundClasses(ctx, g)).To(ConsistOf(highestClasses(classes[:rank+1], places)))
			}).Should(Succeed())
		}
		atRest := func() {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				group.replaceTerminated(ctx, g)
				for _, p := range both {
					g.Expect(queueCounts(p)()).To(Equal(decision.QueueCounts{Unschedulable: (rivals - places) / 2}))
				}
			}).Should(Succeed())
		}
		atRest()

		By("events requeue the pending pods to no avail")
		attempts := func() int {
			var n int64
			for _, p := range both {
				page, _ := berth.Ledger().History(p.Name, 0)
				n += page.Totals.Refusals
			}
			return int(n)
		}
		for round := range 3 {
			before := attempts()
			node.Status = env.node("n").Capacity("cpu", fmt.Sprintf("%d%d00m", places, round+1)).Obj().Status
			Expect(admin.Status().Update(ctx, node)).To(Succeed())
			Eventually(attempts).Should(BeNumerically(">", before))
			atRest()
		}
		evictions := group.evictionsByPreemptor(ctx)
		Expect(evictions).To(HaveLen(rivals-places), "one for each pod that is not bound")
		Expect(evictions).To(HaveEach(1))
		Expect(group.boundClasses(ctx, Default)).To(ConsistOf(highestClasses(classes, places)))
	})
})

func highestClasses(classes []string, n int) []string { return classes[max(0, len(classes)-n):] }

// rivalPods are pods that are created again when they are evicted.
type rivalPods struct {
	testEnv
	profiles []*v1alpha1.SchedulingProfile
	pods     map[string]*v1.Pod
	created  int
}

// create creates a pod of a priority class that requests a CPU.
func (group *rivalPods) create(ctx context.Context, p *v1alpha1.SchedulingProfile, class string) {
	GinkgoHelper()
	group.created++
	pod := createPod(ctx, withPriorityClass(group.pod(p, fmt.Sprint("rival-", group.created)).Requests("cpu", "1"), class))
	group.pods[pod.Name] = pod
}

// replaceTerminated removes terminating pods, as the kubelet would, and creates them again,
// as their owner would.
func (group *rivalPods) replaceTerminated(ctx context.Context, g Gomega) {
	for name, pod := range group.pods {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if pod.DeletionTimestamp == nil {
			continue
		}
		delete(group.pods, name)
		admin.Remove(ctx, pod)
		of := slices.IndexFunc(group.profiles, func(p *v1alpha1.SchedulingProfile) bool { return p.Name == pod.Spec.SchedulerName })
		group.create(ctx, group.profiles[of], pod.Spec.PriorityClassName)
	}
}

// boundClasses returns the priority classes of the bound pods that do not terminate.
func (group *rivalPods) boundClasses(ctx context.Context, g Gomega) []string {
	var classes []string
	for _, pod := range group.pods {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			classes = append(classes, pod.Spec.PriorityClassName)
		}
	}
	return classes
}

// evictionsByPreemptor counts the victims by the preemptor's UID, once each pod that was
// created again has the Event of its eviction.
func (group *rivalPods) evictionsByPreemptor(ctx context.Context) map[string]int {
	GinkgoHelper()
	var costs map[string]int
	Eventually(func(g Gomega) {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(group.namespace))).To(Succeed())
		costs = map[string]int{}
		total := 0
		for _, e := range list.Items {
			if uid, about := strings.CutPrefix(e.Note, "Preempted by pod "); about {
				uid, _, _ = strings.Cut(uid, " ")
				costs[uid]++
				total++
			}
		}
		g.Expect(total).To(BeNumerically(">=", group.created-len(group.pods)))
	}).Should(Succeed())
	return costs
}

var _ = Describe("Priorities", func() {
	It("order pods across two profiles", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		classes := createPriorityClasses(ctx, 6, v1.PreemptNever)
		both := []*v1alpha1.SchedulingProfile{createProfile(ctx, neverFlush), createProfile(ctx, neverFlush)}
		expectReady(ctx, both[0])
		expectReady(ctx, both[1])
		createNode(ctx, env.node("n").Capacity("cpu", "3"))

		By("the scheduling loop is blocked by a pod of a third profile")
		third := createProfile(ctx, blockAt(preFilterSet))
		open := gates.preFilter.shutGate()
		defer open()
		createPod(ctx, env.pod(third, "slow"))
		Eventually(queueCounts(third)).Should(Equal(decision.QueueCounts{InFlight: 1}))
		pods := createPodOfEachClass(ctx, env, classes, both)
		for _, p := range both {
			Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Active: 3}))
		}

		open()
		expectHighestBound(ctx, pods)
	})

	It("decide which pods are bound when an event requeues pods of both profiles", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		classes := createPriorityClasses(ctx, 6, v1.PreemptNever)
		both := []*v1alpha1.SchedulingProfile{createProfile(ctx, neverFlush), createProfile(ctx, neverFlush)}
		small := createNode(ctx, env.node("n").Capacity("cpu", "500m"))
		pods := createPodOfEachClass(ctx, env, classes, both)
		expectReason(ctx, v1.PodReasonUnschedulable, pods...)
		for _, p := range both {
			Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Unschedulable: 3}))
		}
		// A pod that backs off when the event arrives would be popped after one that does
		// not.
		const backoff = 2 * time.Second
		Eventually(time.Since).WithArguments(time.Now()).Should(BeNumerically(">", backoff))

		small.Status = env.node("n").Capacity("cpu", "3").Obj().Status
		Expect(admin.Status().Update(ctx, small)).To(Succeed())
		expectHighestBound(ctx, pods)
	})
})

// createPriorityClasses creates classes of priority 1, 2, 3, … and returns their names.
func createPriorityClasses(ctx context.Context, n int, policy v1.PreemptionPolicy) []string {
	GinkgoHelper()
	var names []string
	for i := range n {
		class := apitest.Created(ctx, admin, &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{GenerateName: "class-"},
			Value:            int32(i + 1),
			PreemptionPolicy: &policy,
		})
		names = append(names, class.Name)
	}
	return names
}

// createPodOfEachClass creates a pod of each class that requests a CPU, for the profiles in
// turn, in an order other than that of the priorities.
func createPodOfEachClass(ctx context.Context, env testEnv, classes []string, profiles []*v1alpha1.SchedulingProfile) []*v1.Pod {
	GinkgoHelper()
	pods := make([]*v1.Pod, len(classes))
	for _, i := range []int{2, 5, 0, 3, 1, 4} {
		pod := env.pod(profiles[i%2], fmt.Sprint("priority-", i+1)).Requests("cpu", "1")
		pods[i] = createPod(ctx, pod.Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = classes[i] }))
	}
	return pods
}

// expectHighestBound expects the upper half of the pods to be bound and the lower half to
// be unschedulable.
func expectHighestBound(ctx context.Context, pods []*v1.Pod) {
	GinkgoHelper()
	half := len(pods) / 2
	admin.ExpectBound(ctx, pods[half:]...)
	expectReason(ctx, v1.PodReasonUnschedulable, pods[:half]...)
}
