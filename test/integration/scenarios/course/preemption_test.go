package course

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// fight is a scenario: who has a place, who comes and matters, and who has to
// go for it. Nobody plays the kubelet: who has to go has no grace, and goes at
// once.
type fight struct {
	nodes nodes
	there pods
	// budgets say how many pods of an app may still be disrupted.
	budgets map[string]int32
	comes   *fixture.PodBuilder
	edits   []edit
	// evicted names those that have to go, parted by blanks; empty: nobody, and
	// who comes is refused. node is then promised to who comes; empty: "n".
	evicted, node string
}

// fights runs each scenario. Where roles has one for it, First plays it.
func fights(table map[string]fight, roles map[string]func() role) {
	for _, sentence := range slices.Sorted(maps.Keys(table)) {
		It(sentence, minute, func(ctx SpecContext) {
			if play := roles[sentence]; play != nil {
				first.plays(play())
			}
			table[sentence].plays(ctx)
		})
	}
}

func (f fight) plays(ctx context.Context) {
	GinkgoHelper()
	p := aProfile(ctx, f.edits...)
	for _, node := range f.nodes {
		aNode(ctx, node)
	}
	var there []*v1.Pod
	for _, builder := range f.there {
		there = append(there, aPod(ctx, p, builder))
	}
	for app, allowed := range f.budgets {
		aBudget(ctx, app, allowed)
	}
	ring(ctx)
	comer := aPod(ctx, p, f.comes)
	if f.evicted == "" {
		expectRefused(ctx, comer)
		Expect(comer.Status.NominatedNodeName).To(BeEmpty())
	}
	for _, pod := range there {
		if slices.Contains(strings.Fields(f.evicted), pod.Name) {
			gone(ctx, pod)
			if f.node == "" {
				f.node = pod.Spec.NodeName
			}
		}
	}
	if f.evicted != "" {
		Eventually(func(g Gomega) string { return promised(ctx, comer)(g) + comer.Spec.NodeName }).Should(Equal(f.node))
	}
	for _, pod := range there {
		if !slices.Contains(strings.Fields(f.evicted), pod.Name) {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed(), pod.Name)
			Expect(pod.DeletionTimestamp).To(BeNil(), pod.Name)
		}
	}
}

// aBudget protects the pods of an app, but for so many.
func aBudget(ctx context.Context, app string, allowed int32) {
	GinkgoHelper()
	least := intstr.FromInt32(2)
	budget := apitest.Created(ctx, admin, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: scene, Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: fixture.LabelSelector("app", app)},
	})
	budget.Status.DisruptionsAllowed = allowed
	Expect(admin.Status().Update(ctx, budget)).To(Succeed())
	lister := berth.Informers().Policy().V1().PodDisruptionBudgets().Lister().PodDisruptionBudgets(scene)
	Eventually(func(g Gomega) {
		known, err := lister.Get(app)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known.UID).To(Equal(budget.UID))
		g.Expect(known.Status.DisruptionsAllowed).To(Equal(allowed))
	}).Should(Succeed())
}

// tokens lets so many pods in as it has tokens; one that is thought away gives
// one back.
func tokens(atPreFilter bool, code fwk.Code) func() role {
	return func() role {
		var mu sync.Mutex
		left := 0
		add := func(n int) func() { return func() { mu.Lock(); left += n; mu.Unlock() } }
		refusal := func() *fwk.Status {
			mu.Lock()
			defer mu.Unlock()
			if left > 0 {
				return nil
			}
			return fwk.NewStatus(code, "no token")
		}
		r := role{adds: add(-1), removes: add(1), filter: func(*v1.Pod) *fwk.Status { return refusal() }}
		if atPreFilter {
			r.preFilter = func(*v1.Pod) (*fwk.PreFilterResult, *fwk.Status) { return nil, refusal() }
		}
		return r
	}
}

// keepsApart refuses to be near pods that are labelled kind=value.
func keepsApart(pod *fixture.PodBuilder, topology, value string) *fixture.PodBuilder {
	return pod.RequirePodAntiAffinity(fixture.PodAffinityTerm(topology, "kind", value))
}

var _ = Describe("A pod that matters more", func() {
	atFilters := []edit{at(preFilters, "First"), at(filters, "First")}
	rack := nodes{node("n").Label("rack", "n").Capacity("cpu", "500m")}
	big := func() *fixture.PodBuilder { return ranked("comes", "high").Requests("cpu", "300m") }
	kept := func(name, class, kind string) *fixture.PodBuilder {
		return ranked(name, class).Label("kind", kind).Requests("cpu", "100m").On("n")
	}
	small := pods{ranked("victim", "low").Requests("cpu", "200m").On("n")}
	picky := func(topology string) *fixture.PodBuilder {
		return keepsApart(ranked("comes", "high").Label("kind", "comes").Requests("cpu", "100m"), topology, "zero")
	}
	fights(map[string]fight{
		"evicts who has the room": {
			nodes: rack, there: pods{ranked("victim", "low").Requests("cpu", "400m").On("n")}, comes: big(), evicted: "victim",
		},
		"evicts for the sake of a plugin's Filter that would let it in then": {
			nodes: rack, there: small, comes: big(), edits: atFilters, evicted: "victim",
		},
		"evicts for the sake of a plugin's PreFilter that would let it in then": {
			nodes: rack, there: small, comes: big(), edits: atFilters, evicted: "victim",
		},
		"evicts nobody where a plugin says that it would not help": {
			nodes: rack, there: small, comes: big(), edits: atFilters,
		},
		"evicts whom it does not want near, and who does not want it": {
			nodes: rack, there: pods{kept("zero", "middle", "zero"), keepsApart(kept("one", "low", "one"), "rack", "comes")},
			comes: picky("rack"), evicted: "zero one",
		},
		"evicts nobody it does not want near while one that matters as much does not want it": {
			nodes: rack, there: pods{kept("zero", "middle", "zero"), keepsApart(kept("one", "high", "one"), "rack", "comes")},
			comes: picky("rack"),
		},
		"evicts whom it does not want on its own node": {
			nodes: rack, there: pods{kept("zero", "low", "zero"), keepsApart(kept("one", "low", "one"), v1.LabelHostname, "comes")},
			comes: picky(v1.LabelHostname), evicted: "zero one",
		},
		"evicts nobody when its profile does not preempt": {
			nodes: rack, there: pods{ranked("victim", "low").Requests("cpu", "400m").On("n")}, comes: big(),
			edits: []edit{without(postFilters, "DefaultPreemption")},
		},
		"evicts nobody when its policy is never to": {
			nodes: rack, there: pods{ranked("victim", "low").Requests("cpu", "400m").On("n")},
			comes: ranked("comes", "patient").Requests("cpu", "300m"),
		},
		"spares whom a budget protects, although another matters more": {
			nodes: rack, budgets: map[string]int32{"kept": 0},
			there: pods{
				kept("low-1", "low", "").Label("app", "kept"), kept("low-2", "low", "").Label("app", "kept"), kept("middle", "middle", ""),
			},
			comes: big(), evicted: "middle",
		},
		"goes to a node where no budget is in its way": {
			nodes: nodes{node("n").Capacity("cpu", "500m"), node("m").Capacity("cpu", "500m")}, budgets: map[string]int32{"kept": 0},
			there: pods{kept("low", "low", "").Label("app", "kept"), kept("middle", "middle", "").On("m")},
			comes: ranked("comes", "high").Requests("cpu", "500m"), evicted: "middle", node: "m",
		},
		"goes to a node where budgets give way and the least important are": {
			nodes:   nodes{node("n").Capacity("cpu", "500m"), node("m").Capacity("cpu", "500m"), node("o").Capacity("cpu", "500m")},
			budgets: map[string]int32{"kept": 0, "free": 3},
			there: pods{
				kept("n-low", "low", "").Label("app", "kept"), kept("n-middle", "middle", ""),
				kept("m-low", "low", "").Label("app", "free").On("m"), kept("m-middle", "middle", "").Label("app", "free").On("m"),
				kept("o-1", "low", "").Label("app", "free").On("o"), kept("o-2", "low", "").Label("app", "free").On("o"),
				kept("o-3", "low", "").Label("app", "free").On("o"),
			},
			comes: ranked("comes", "high").Requests("cpu", "500m"), evicted: "o-1 o-2 o-3", node: "o",
		},
	}, map[string]func() role{
		"evicts for the sake of a plugin's Filter that would let it in then":    tokens(false, fwk.Unschedulable),
		"evicts for the sake of a plugin's PreFilter that would let it in then": tokens(true, fwk.Unschedulable),
		"evicts nobody where a plugin says that it would not help":              tokens(false, fwk.UnschedulableAndUnresolvable),
	})
})

// A system's priority classes are the API server's to resolve.
var _ = Describe("A priority class", func() {
	for class, want := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		It("of the system is there: "+class, minute, func(ctx SpecContext) {
			p := aProfile(ctx)
			aNode(ctx, node("n"))
			pod := aPod(ctx, p, ranked("a", class).Mutate(func(pod *v1.Pod) { pod.Namespace = metav1.NamespaceSystem }))
			admin.ExpectBound(ctx, pod)
			Expect(pod.Spec.Priority).To(HaveValue(Equal(want)))
		})
	}

	It("that is not there keeps the API server from taking the pod", minute, func(ctx SpecContext) {
		err := admin.Create(ctx, ranked("a", "foo").Valid())
		Expect(err).To(MatchError(ContainSubstring("no PriorityClass with name foo was found")))
	})
})
