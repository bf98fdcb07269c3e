package placement

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// scenario is a cluster, and a pod that comes to it.
type scenario struct {
	// by is the profile that decides; the usual one where it is empty.
	by    string
	nodes []*fixture.NodeBuilder
	// there are the pods that were there before, each on a node.
	there []*fixture.PodBuilder
	// pod comes; where it is nil, there are only the steps.
	pod  *fixture.PodBuilder
	want verdict
	// then is what happens next.
	then []step
}

// verdict is what becomes of a pod.
type verdict struct {
	// on are the nodes one of which it gets, why the reasons for which it gets
	// none of them.
	on  []string
	why string
	// exactly says what on are besides: all nodes of that kind, and no others.
	exactly kind
	// invalid says that the API server does not take it.
	invalid bool
}

// kind says which nodes a verdict names.
type kind int

const (
	some kind = iota
	fitting
	ranking
)

// on is a pod that fits on these nodes, each of them, and gets one.
func on(nodes ...string) verdict { return verdict{on: nodes, exactly: fitting} }

// best is a pod for which these nodes rank higher than all others that it fits
// on, and that gets one.
func best(nodes ...string) verdict { return verdict{on: nodes, exactly: ranking} }

// oneOf is a pod that gets one of these nodes, whatever others it fits on.
func oneOf(nodes ...string) verdict { return verdict{on: nodes} }

// refused is a pod that fits nowhere: why counts the nodes by reason, as
// kube-scheduler does.
func refused(why string) verdict { return verdict{why: why} }

var invalid = verdict{invalid: true}

// table is a table of scenarios, each under a sentence.
func table(about string, entries ...TableEntry) bool {
	return DescribeTable(about, func(ctx SpecContext, s scenario) { s.play(ctx) }, entries)
}

func entry(sentence string, s scenario) TableEntry {
	return Entry(sentence, Offset(1), minute, s)
}

// play does what the scenario says, in its order.
func (s scenario) play(ctx context.Context) {
	GinkgoHelper()
	c := aCluster()
	c.comes(ctx, s.nodes...)
	for _, pod := range s.there {
		c.create(ctx, pod)
	}
	if s.pod != nil {
		if s.by != "" {
			s.pod.SchedulerName(s.by)
		}
		if s.want.invalid {
			Expect(admin.Create(ctx, s.pod.Valid())).To(Satisfy(apierrors.IsInvalid))
			return
		}
		c.expect(ctx, c.create(ctx, s.pod), s.want)
	}
	for _, step := range s.then {
		step(ctx, c)
	}
}

// expect waits for what becomes of a pod.
func (c *cluster) expect(ctx context.Context, pod *v1.Pod, want verdict) {
	GinkgoHelper()
	if want.why == "" {
		admin.ExpectBound(ctx, pod)
		Expect(want.on).To(ContainElement(pod.Spec.NodeName), "the node of %s", pod.Name)
		switch want.exactly {
		case fitting:
			Expect(decisionOn(pod).Feasible).To(Equal(len(want.on)), "how many nodes %s fits on", pod.Name)
		case ranking:
			Expect(decisionOn(pod).best()).To(ConsistOf(want.on), "the nodes that rank highest for %s", pod.Name)
		}
		return
	}
	all := fmt.Sprintf("False Unschedulable: 0/%d nodes are available: %s.", c.nodes, want.why)
	Eventually(func(g Gomega) string {
		if node := admin.Place(ctx, pod)(g); node != "" {
			StopTrying(fmt.Sprintf("%s is on node %s, and was to be refused: %s", pod.Name, node, want.why)).Now()
		}
		return apitest.Scheduled(pod)
	}).Should(HavePrefix(all), pod.Name)
}

// step is one thing that happens in a cluster.
type step func(ctx context.Context, c *cluster)

// comes is a node that is added.
func comes(node *fixture.NodeBuilder) step {
	return func(ctx context.Context, c *cluster) { c.comes(ctx, node) }
}

// joins is a pod that is created, and what becomes of it.
func joins(pod *fixture.PodBuilder, want verdict) step {
	return func(ctx context.Context, c *cluster) { c.expect(ctx, c.create(ctx, pod), want) }
}

// gets is what becomes of a pod that is waiting.
func gets(pod string, want verdict) step {
	return func(ctx context.Context, c *cluster) { c.expect(ctx, c.pods[pod], want) }
}

// joinsThe is a pod that goes where another went.
func joinsThe(first string, pod *fixture.PodBuilder) step {
	return func(ctx context.Context, c *cluster) {
		c.expect(ctx, c.create(ctx, pod), on(c.pods[first].Spec.NodeName))
	}
}

// leaves is a pod that is deleted, and gone at once.
func leaves(pod string) step {
	return func(ctx context.Context, c *cluster) { admin.Remove(ctx, c.pods[pod]) }
}

// changes is a write to a node, in its spec or metadata.
func changes(node string, edit func(*v1.Node)) step {
	return func(ctx context.Context, _ *cluster) { apitest.Change(ctx, admin, fixture.Node(node).Obj(), edit) }
}

// reports is a write to a node's status.
func reports(node string, edit func(*v1.Node)) step {
	return func(ctx context.Context, _ *cluster) {
		apitest.ChangeStatus(ctx, admin, fixture.Node(node).Obj(), edit)
	}
}

// relabels is a write to a pod's labels.
func relabels(pod, key, value string) step {
	return func(ctx context.Context, c *cluster) {
		apitest.Change(ctx, admin, c.pods[pod], func(p *v1.Pod) { p.Labels = map[string]string{key: value} })
	}
}

// tried holds how many attempts it took to bind a pod.
func tried(pod string, times int) step {
	return func(_ context.Context, c *cluster) {
		GinkgoHelper()
		Expect(decisionOn(c.pods[pod]).Attempts).To(Equal(times), "attempts of %s", pod)
	}
}
