package course

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
)

// The words of this suite that say how things stand.

// promised reads a pod again and returns the node where room is kept for it.
func promised(ctx context.Context, pod *v1.Pod) func(g Gomega) string {
	return func(g Gomega) string {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return pod.Status.NominatedNodeName
	}
}

// expectRefused waits until pods are told that they fit nowhere, and rest.
func expectRefused(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix("False Unschedulable"), pod.Name)
		Eventually(where(pod)).Should(Equal(queue.Unschedulable), pod.Name)
	}
}

// gone waits until the API server has the pods no more.
func gone(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pod), &v1.Pod{}))
		}).Should(BeTrue(), pod.Name)
	}
}

// where is the pod's place in the queue, empty when it is not there.
func where(pod *v1.Pod) func() queue.Place {
	return func() queue.Place { return berth.Scheduler().Components().Queue.Places()[pod.UID] }
}

// attempts are how often a pod was tried, as far as is recorded.
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

// waiting says where a profile's pods are now.
func waiting(p *v1alpha1.SchedulingProfile) func() decision.QueueCounts {
	return func() decision.QueueCounts { return berth.Scheduler().QueueCounts(p.Name) }
}

// served are the generations that ran since the manager started and that may
// still be asked about something.
var served []*profile.Generation

// noteServed remembers what runs for the profile now.
func noteServed(p *v1alpha1.SchedulingProfile) {
	if g, ok := berth.Scheduler().Profiles().Acquire(p.Name); ok {
		served = append(served, g)
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

// leftBehind names what the scheduler still knows of an older scenario. A pod
// that is gone may be under way to its PostBind yet: only a generation that is
// closed asks its plugins nothing more.
func leftBehind() (names []string) {
	GinkgoHelper()
	served = slices.DeleteFunc(served, isClosed)
	for _, g := range served {
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
		if pod.Name != bellPod {
			names = append(names, "pod "+pod.Name)
		}
	}
	return names
}
