package placement

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// cluster is what one scenario has put there. It has all of the API server:
// scenarios play one after the other, and the next finds nothing.
type cluster struct {
	// nodes is how many there are, pods are those that it created by name.
	nodes int
	pods  map[string]*v1.Pod
}

// aCluster is empty, and will be when the scenario ends.
func aCluster() *cluster {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		for _, namespace := range []string{metav1.NamespaceDefault, blue, red} {
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
		}
		Expect(admin.DeleteAllOf(ctx, &v1.Node{})).To(Succeed())
	}, NodeTimeout(patience))
	return &cluster{pods: map[string]*v1.Pod{}}
}

// comes adds nodes, status included, and waits until Berth knows them: it is
// told of nodes in their order, and binds a pod that nothing keeps off the last.
// The pod is the last of all pods that Berth hears of until then, those of the
// scenario before included.
func (c *cluster) comes(ctx context.Context, nodes ...*fixture.NodeBuilder) {
	GinkgoHelper()
	if len(nodes) == 0 {
		return
	}
	var last *v1.Node
	for _, node := range nodes {
		last = node.Obj()
		Expect(admin.Create(ctx, last)).To(Succeed())
	}
	c.nodes += len(nodes)
	scout := fixture.Pod("scout").RequireNodeAffinity(fixture.NodeNameTerm(last.Name)).
		Toleration(v1.Toleration{Operator: v1.TolerationOpExists}).Valid()
	Expect(admin.Create(ctx, scout)).To(Succeed())
	Eventually(admin.Place(ctx, scout)).Should(Equal(last.Name), func() string { return "the scout stands at: " + apitest.Scheduled(scout) })
	admin.Remove(ctx, scout)
}

// create creates a pod and waits for nothing.
func (c *cluster) create(ctx context.Context, pod *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	created := pod.Valid()
	Expect(admin.Create(ctx, created)).To(Succeed())
	c.pods[created.Name] = created
	return created
}

// said is what the annotation on a bound pod says.
type said struct {
	Node               string
	Feasible, Attempts int
	Top                []decision.NodeScore
}

// best are the nodes that nothing ranks above; where only one fits, none is
// ranked.
func (s said) best() (nodes []string) {
	if s.Feasible == 1 {
		return []string{s.Node}
	}
	for _, n := range s.Top {
		if n.Score == s.Top[0].Score {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes
}

func decisionOn(pod *v1.Pod) (s said) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &s)).To(Succeed(), "the annotation of %s", pod.Name)
	return s
}
