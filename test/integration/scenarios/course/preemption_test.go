package course

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// preemptionCase is a preemptor, the existing pods, and which of them are evicted. No
// kubelet runs: the victims have no grace period and are deleted at once.
type preemptionCase struct {
	nodes    nodes
	existing pods
	// budgets has the allowed disruptions by app.
	budgets   map[string]int32
	preemptor *fixture.PodBuilder
	edits     []edit
	// evicted has the names of the victims, separated by blanks; if empty, no pod is
	// evicted and the preemptor is unschedulable. node is the nominated node, by default
	// that of the victims.
	evicted, node string
}

// preemptionSpecs runs each case, with the functions of First if there are some.
func preemptionSpecs(table map[string]preemptionCase, funcs map[string]func() pluginFuncs) {
	for _, sentence := range slices.Sorted(maps.Keys(table)) {
		It(sentence, minute, func(ctx SpecContext) {
			if newFuncs := funcs[sentence]; newFuncs != nil {
				first.setFuncs(newFuncs())
			}
			table[sentence].run(ctx)
		})
	}
}

func (f preemptionCase) run(ctx context.Context) {
	GinkgoHelper()
	p := createProfile(ctx, f.edits...)
	for _, node := range f.nodes {
		createNode(ctx, node)
	}
	var existing []*v1.Pod
	for _, builder := range f.existing {
		existing = append(existing, createPod(ctx, p, builder))
	}
	for app, allowed := range f.budgets {
		createBudget(ctx, app, allowed)
	}
	waitForQueue(ctx)
	preemptor := createPod(ctx, p, f.preemptor)
	if f.evicted == "" {
		expectRefused(ctx, preemptor)
		Expect(preemptor.Status.NominatedNodeName).To(BeEmpty())
	}
	for _, pod := range existing {
		if slices.Contains(strings.Fields(f.evicted), pod.Name) {
			expectGone(ctx, pod)
			if f.node == "" {
				f.node = pod.Spec.NodeName
			}
		}
	}
	if f.evicted != "" {
		Eventually(func(g Gomega) string { return admin.NominatedNode(ctx, preemptor)(g) + preemptor.Spec.NodeName }).Should(Equal(f.node))
	}
	for _, pod := range existing {
		if !slices.Contains(strings.Fields(f.evicted), pod.Name) {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed(), pod.Name)
			Expect(pod.DeletionTimestamp).To(BeNil(), pod.Name)
		}
	}
}

// createBudget protects the pods of an app except for the allowed disruptions.
func createBudget(ctx context.Context, app string, allowed int32) {
	GinkgoHelper()
	least := intstr.FromInt32(2)
	budget := apitest.Created(ctx, admin, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: fixture.LabelSelector("app", app)},
	})
	budget.Status.DisruptionsAllowed = allowed
	Expect(admin.Status().Update(ctx, budget)).To(Succeed())
	lister := berth.Informers().Policy().V1().PodDisruptionBudgets().Lister().PodDisruptionBudgets(namespace)
	Eventually(func(g Gomega) {
		known, err := lister.Get(app)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known.UID).To(Equal(budget.UID))
		g.Expect(known.Status.DisruptionsAllowed).To(Equal(allowed))
	}).Should(Succeed())
}

// tokenFuncs accepts a pod while it has tokens. RemovePod adds one, and AddPod takes one.
func tokenFuncs(atPreFilter bool, code fwk.Code) func() pluginFuncs {
	return func() pluginFuncs {
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
		r := pluginFuncs{addPod: add(-1), removePod: add(1), filter: func(*v1.Pod) *fwk.Status { return refusal() }}
		if atPreFilter {
			r.preFilter = func(*v1.Pod) (*fwk.PreFilterResult, *fwk.Status) { return nil, refusal() }
		}
		return r
	}
}

// withAntiAffinity adds required anti-affinity to pods with the label kind=value.
func withAntiAffinity(pod *fixture.PodBuilder, topology, value string) *fixture.PodBuilder {
	return pod.RequirePodAntiAffinity(fixture.PodAffinityTerm(topology, "kind", value))
}

var _ = Describe("A pod with a higher priority", func() {
	atFilters := []edit{enableAt(preFilterSet, "First"), enableAt(filterSet, "First")}
	rack := nodes{node("n").Label("rack", "n").Capacity("cpu", "500m")}
	big := func() *fixture.PodBuilder { return podWithClass("preemptor", "high").Requests("cpu", "300m") }
	small := func(name, class, kind string) *fixture.PodBuilder {
		return podWithClass(name, class).Label("kind", kind).Requests("cpu", "100m").On("n")
	}
	smallVictim := pods{podWithClass("victim", "low").Requests("cpu", "200m").On("n")}
	withoutZero := func(topology string) *fixture.PodBuilder {
		return withAntiAffinity(podWithClass("preemptor", "high").Label("kind", "preemptor").Requests("cpu", "100m"), topology, "zero")
	}
	preemptionSpecs(map[string]preemptionCase{
		"evicts a pod that uses the resources": {
			nodes: rack, existing: pods{podWithClass("victim", "low").Requests("cpu", "400m").On("n")}, preemptor: big(), evicted: "victim",
		},
		"evicts a pod after which a plugin's Filter accepts it": {
			nodes: rack, existing: smallVictim, preemptor: big(), edits: atFilters, evicted: "victim",
		},
		"evicts a pod after which a plugin's PreFilter accepts it": {
			nodes: rack, existing: smallVictim, preemptor: big(), edits: atFilters, evicted: "victim",
		},
		"evicts no pod when a plugin's rejection is unresolvable": {
			nodes: rack, existing: smallVictim, preemptor: big(), edits: atFilters,
		},
		"evicts pods that its anti-affinity matches, and pods whose anti-affinity matches it": {
			nodes: rack, existing: pods{small("zero", "middle", "zero"), withAntiAffinity(small("one", "low", "one"), "rack", "preemptor")},
			preemptor: withoutZero("rack"), evicted: "zero one",
		},
		"evicts no pod while the anti-affinity of a pod of equal priority matches it": {
			nodes: rack, existing: pods{small("zero", "middle", "zero"), withAntiAffinity(small("one", "high", "one"), "rack", "preemptor")},
			preemptor: withoutZero("rack"),
		},
		"evicts pods with anti-affinity by host name": {
			nodes: rack, existing: pods{small("zero", "low", "zero"), withAntiAffinity(small("one", "low", "one"), v1.LabelHostname, "preemptor")},
			preemptor: withoutZero(v1.LabelHostname), evicted: "zero one",
		},
		"evicts no pod when its profile has no preemption": {
			nodes: rack, existing: pods{podWithClass("victim", "low").Requests("cpu", "400m").On("n")}, preemptor: big(),
			edits: []edit{disableAt(postFilterSet, "DefaultPreemption")},
		},
		"evicts no pod when its preemptionPolicy is Never": {
			nodes: rack, existing: pods{podWithClass("victim", "low").Requests("cpu", "400m").On("n")},
			preemptor: podWithClass("preemptor", "patient").Requests("cpu", "300m"),
		},
		"spares pods that a PodDisruptionBudget protects, although the other has a higher priority": {
			nodes: rack, budgets: map[string]int32{"protected": 0},
			existing: pods{
				small("low-1", "low", "").Label("app", "protected"), small("low-2", "low", "").Label("app", "protected"), small("middle", "middle", ""),
			},
			preemptor: big(), evicted: "middle",
		},
		"is nominated for a node where no PodDisruptionBudget is violated": {
			nodes: nodes{node("n").Capacity("cpu", "500m"), node("m").Capacity("cpu", "500m")}, budgets: map[string]int32{"protected": 0},
			existing:  pods{small("low", "low", "").Label("app", "protected"), small("middle", "middle", "").On("m")},
			preemptor: podWithClass("preemptor", "high").Requests("cpu", "500m"), evicted: "middle", node: "m",
		},
		"is nominated for the node with the fewest violations and the lowest priorities": {
			nodes:   nodes{node("n").Capacity("cpu", "500m"), node("m").Capacity("cpu", "500m"), node("o").Capacity("cpu", "500m")},
			budgets: map[string]int32{"protected": 0, "free": 3},
			existing: pods{
				small("n-low", "low", "").Label("app", "protected"), small("n-middle", "middle", ""),
				small("m-low", "low", "").Label("app", "free").On("m"), small("m-middle", "middle", "").Label("app", "free").On("m"),
				small("o-1", "low", "").Label("app", "free").On("o"), small("o-2", "low", "").Label("app", "free").On("o"),
				small("o-3", "low", "").Label("app", "free").On("o"),
			},
			preemptor: podWithClass("preemptor", "high").Requests("cpu", "500m"), evicted: "o-1 o-2 o-3", node: "o",
		},
	}, map[string]func() pluginFuncs{
		"evicts a pod after which a plugin's Filter accepts it":    tokenFuncs(false, fwk.Unschedulable),
		"evicts a pod after which a plugin's PreFilter accepts it": tokenFuncs(true, fwk.Unschedulable),
		"evicts no pod when a plugin's rejection is unresolvable":  tokenFuncs(false, fwk.UnschedulableAndUnresolvable),
	})
})

// The API server resolves priority classes.
var _ = Describe("A priority class", func() {
	for class, want := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		It("of the system exists: "+class, minute, func(ctx SpecContext) {
			p := createProfile(ctx)
			createNode(ctx, node("n"))
			pod := createPod(ctx, p, podWithClass("a", class).Mutate(func(pod *v1.Pod) { pod.Namespace = metav1.NamespaceSystem }))
			admin.ExpectBound(ctx, pod)
			Expect(pod.Spec.Priority).To(HaveValue(Equal(want)))
		})
	}

	It("that does not exist makes the API server reject the pod", minute, func(ctx SpecContext) {
		err := admin.Create(ctx, podWithClass("a", "foo").Valid())
		Expect(err).To(MatchError(ContainSubstring("no PriorityClass with name foo was found")))
	})
})

var _ = Describe("Among many pending pods, one with a higher priority", func() {
	It("gets the resources of its victims before pods that have waited longer", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "500m"))
		var run, wait []*v1.Pod
		for i := range 5 {
			run = append(run, createBound(ctx, p, podWithClass(fmt.Sprint("runs-", i), "middle").Requests("cpu", "100m"))...)
		}
		for i := range 5 {
			wait = append(wait, createPod(ctx, p, podWithClass(fmt.Sprint("waits-", i), "middle").Requests("cpu", "100m")))
		}
		expectRefused(ctx, wait...)
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "300m"))
		admin.ExpectBound(ctx, high)
		expectRefused(ctx, wait...)
		Expect(countDeleted(ctx, run)).To(Equal(3), "number of victims")
	})

	for round := range 5 {
		It(fmt.Sprintf("gets the resources of its victims before twenty later pods, round %d of 5", round+1), minute, func(ctx SpecContext) {
			p := createProfile(ctx)
			createNode(ctx, node("n").Capacity("cpu", "5"))
			low := createBound(ctx, p, podWithClass("first", "middle").Requests("cpu", "100m"), podWithClass("second", "middle").Requests("cpu", "100m"))
			high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4900m"))
			var late []*v1.Pod
			for i := range 20 {
				late = append(late, createPod(ctx, p, podWithClass(fmt.Sprint("late-", i), "middle").Requests("cpu", "200m")))
			}
			admin.ExpectBound(ctx, high)
			expectRefused(ctx, late...)
			Expect(admin.NominatedNode(ctx, high)(Default)).To(BeEmpty())
			Expect(countDeleted(ctx, low)).To(BeNumerically(">=", 1), "number of victims")
		})
	}
})

// countDeleted returns the number of pods that no longer exist.
func countDeleted(ctx context.Context, pods []*v1.Pod) (n int) {
	for _, pod := range pods {
		if apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)) {
			n++
		}
	}
	return n
}
