package explanations

import (
	"errors"
	"flag"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	refusals  = flag.Int("refusals", 10000, "how many refused pods are looked at at least")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history")
)

// counts say what was looked at: what is never missing is not proved.
type counts struct {
	Refusals, Explained, Near, Resources, Cordons, Taints, Others, Several int
	// Fewest are the refusals of which no node misses fewer things than the one
	// that is told first.
	Fewest int
	// Woken are pods that slept when what they missed on a node came to be there,
	// Freed those that slept when pods left the node until they fitted.
	Woken, Freed int
}

// fewestShare is how often at least the node that is told first must be the one
// that asking all nodes in full would find.
const fewestShare = 0.95

// A pod fits on a node that gets all that it is said to miss, and on none that
// gets all but one of it.
func TestWhatIsMissingIsAllThatIsMissing(t *testing.T) {
	var total counts
	seed := *firstSeed
	for ; total.Refusals < *refusals && !t.Failed(); seed++ {
		history(t, seed, &total)
		if t.Failed() {
			t.Logf("that was seed %d", seed)
		}
	}
	t.Logf("seeds %d to %d: %+v", *firstSeed, seed-1, total)
	if share := float64(total.Fewest) / float64(total.Explained); share < fewestShare && !t.Failed() {
		t.Errorf("of %.3f of the refusals the nearest node misses the fewest things, want %.2f", share, fewestShare)
	}
	for what, n := range map[string]int{
		"resources": total.Resources, "cordons": total.Cordons, "taints": total.Taints, "others": total.Others, "several": total.Several,
		"nothing any more, which woke a pod": total.Woken, "nothing any more, since others left": total.Freed,
	} {
		if n < total.Refusals/100 && !t.Failed() {
			t.Errorf("the refusals prove too little: %d nodes missed %s", n, what)
		}
	}
}

// history plays one seed; every other cluster is full.
func history(t *testing.T, seed uint64, total *counts) {
	g := generate.New(seed, 150)
	if seed%2 == 0 {
		g = generate.NewCrowded(seed, 150)
	}
	config := g.Config()
	config.Explain = false
	b, err := run.NewBerth(t.Context(), config)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	world := run.NewWorld(b)
	r, err := newBedroom(t.Context(), b)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for op, ok := g.Next(); ok && !t.Failed(); op, ok = g.Next() {
		outcome, err := world.Do(op)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if outcome == nil {
			continue
		}
		var unfit *framework.FitError
		if errors.As(outcome.Err, &unfit) {
			total.Refusals++
			near := b.Nearest(unfit)
			if len(near) > 0 {
				total.Explained++
				if len(near[0].Missing) == b.Fewest(unfit) {
					total.Fewest++
				}
			}
			for _, miss := range near {
				total.Near++
				prove(t, b, outcome.Pod, miss, total)
				proveWoken(t, sleeper{b, r, outcome.Pod, unfit}, miss, total)
			}
		}
		g.Tell(outcome)
	}
}

// prove gives a node what it misses, and all but one of it.
func prove(t *testing.T, b *run.Berth, pod *v1.Pod, miss v1alpha1.ClosestNode, total *counts) {
	t.Helper()
	before := b.Node(miss.Node)
	if len(miss.Missing) > 1 {
		total.Several++
	}
	for skip := -1; skip < len(miss.Missing); skip++ {
		after, but := before.DeepCopy(), []string(nil)
		for i, m := range miss.Missing {
			if i == skip {
				continue
			}
			if plugin := give(after, spread(b, pod), m, skip == -1, total); plugin != "" {
				but = append(but, plugin)
			}
		}
		b.SetNode(before, after)
		status := b.Judge(pod, miss.Node, but...)
		b.SetNode(after, before)
		switch {
		case skip == -1 && !status.IsSuccess():
			t.Errorf("pod %s does not fit on %s, which misses %+v no more: %s: %s",
				pod.Name, miss.Node, miss.Missing, status.Plugin(), status.Message())
		case skip >= 0 && status.IsSuccess() && !mended(miss.Missing, skip, but):
			t.Errorf("pod %s fits on %s without %+v of %+v", pod.Name, miss.Node, miss.Missing[skip], miss.Missing)
		}
	}
}

// mended says whether the plugin of what was not given is left out for the sake
// of something else that it says.
func mended(missing []v1alpha1.Missing, skip int, but []string) bool {
	return missing[skip].Plugin != "" && slices.Contains(but, missing[skip].Plugin)
}

// give changes a node so that it misses m no more. Where that takes more than
// the node, it returns the plugin that is to be left out instead.
func give(node *v1.Node, pod *v1.Pod, m v1alpha1.Missing, first bool, total *counts) (leftOut string) {
	count := func(n *int) {
		if first {
			*n++
		}
	}
	switch {
	case m.Resource != "":
		count(&total.Resources)
		lack := resource.MustParse(m.Requested)
		lack.Sub(resource.MustParse(m.Free))
		has := node.Status.Allocatable[v1.ResourceName(m.Resource)]
		has.Add(lack)
		node.Status.Allocatable[v1.ResourceName(m.Resource)] = has
	case m.Plugin == "NodeUnschedulable":
		count(&total.Cordons)
		node.Spec.Unschedulable = false
	case m.Plugin == "TaintToleration" && !honoursTaints(pod):
		count(&total.Taints)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint v1.Taint) bool {
			return framework.UntoleratedTaint([]v1.Taint{taint}, pod.Spec.Tolerations) != nil
		})
	default:
		count(&total.Others)
		return m.Plugin
	}
	return ""
}

// spread returns a pod that is spread as the profile spreads pod: by the profile's
// own constraints where pod has none.
func spread(b *run.Berth, pod *v1.Pod) *v1.Pod {
	args, ok := b.Blueprint().Args["PodTopologySpread"].(*configv1.PodTopologySpreadArgs)
	if !ok || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.TopologySpreadConstraints = args.DefaultConstraints
	return pod
}

// honoursTaints says whether taints decide by which nodes the pod is spread: one
// less may spread it otherwise.
func honoursTaints(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	})
}
