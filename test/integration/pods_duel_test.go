package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// Whoever is evicted is created again, as its owner would.
var _ = Describe("Two profiles whose pods evict each other's", func() {
	It("come to rest, and no eviction is one too many", minute, func(ctx SpecContext) {
		const rivals, places = 6, 2
		y, classes := aYard(ctx), priorities(ctx, rivals, v1.PreemptLowerPriority)
		both := []*v1alpha1.SchedulingProfile{aProfile(ctx, neverFlushing), aProfile(ctx, neverFlushing)}
		node := aNode(ctx, y.node("n").Capacity("cpu", fmt.Sprint(places)))
		d := &duel{yard: y, profiles: both, alive: map[string]*v1.Pod{}}
		for rank := range rivals {
			d.send(ctx, both[rank%2], classes[rank])
			// The least important has to go for the newest, and comes again.
			Eventually(func(g Gomega) {
				d.bury(ctx, g)
				g.Expect(d.placed(ctx, g)).To(ConsistOf(top(classes[:rank+1], places)))
			}).Should(Succeed())
		}
		atRest := func() {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				d.bury(ctx, g)
				for _, p := range both {
					g.Expect(waiting(p)()).To(Equal(decision.QueueCounts{Unschedulable: (rivals - places) / 2}))
				}
			}).Should(Succeed())
		}
		atRest()

		By("also when something wakes all who wait, to no avail")
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
			node.Status = y.node("n").Capacity("cpu", fmt.Sprintf("%d%d00m", places, round+1)).Obj().Status
			Expect(admin.Status().Update(ctx, node)).To(Succeed())
			Eventually(attempts).Should(BeNumerically(">", before))
			atRest()
		}
		Expect(d.costs(ctx)).To(HaveLen(rivals-places), "one for each that found no place")
		Expect(d.costs(ctx)).To(HaveEach(1))
		Expect(d.placed(ctx, Default)).To(ConsistOf(top(classes, places)))
	})
})

func top(classes []string, n int) []string { return classes[max(0, len(classes)-n):] }

// duel is pods that come again.
type duel struct {
	yard
	profiles []*v1alpha1.SchedulingProfile
	alive    map[string]*v1.Pod
	born     int
}

// send creates a pod of a class that wants a CPU.
func (d *duel) send(ctx context.Context, p *v1alpha1.SchedulingProfile, class string) {
	GinkgoHelper()
	d.born++
	pod := aPod(ctx, ranked(d.pod(p, fmt.Sprint("rival-", d.born)).Requests("cpu", "1"), class))
	d.alive[pod.Name] = pod
}

// bury plays the kubelet to those who terminate, and their owner.
func (d *duel) bury(ctx context.Context, g Gomega) {
	for name, pod := range d.alive {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if pod.DeletionTimestamp == nil {
			continue
		}
		delete(d.alive, name)
		admin.Remove(ctx, pod)
		of := slices.IndexFunc(d.profiles, func(p *v1alpha1.SchedulingProfile) bool { return p.Name == pod.Spec.SchedulerName })
		d.send(ctx, d.profiles[of], pod.Spec.PriorityClassName)
	}
}

// placed are the classes of the pods that have a node and stay there.
func (d *duel) placed(ctx context.Context, g Gomega) []string {
	var classes []string
	for _, pod := range d.alive {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			classes = append(classes, pod.Spec.PriorityClassName)
		}
	}
	return classes
}

// costs are how many pods each preemptor, by its UID, has cost their place.
func (d *duel) costs(ctx context.Context) map[string]int {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(admin.List(ctx, &list, client.InNamespace(d.name))).To(Succeed())
	costs := map[string]int{}
	for _, e := range list.Items {
		if uid, about := strings.CutPrefix(e.Note, "Preempted by pod "); about {
			uid, _, _ = strings.Cut(uid, " ")
			costs[uid]++
		}
	}
	return costs
}
