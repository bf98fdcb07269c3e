package main

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fixture"
)

// shape is one load: what the pods are like, and what else is there. Those
// that upstream has too are the ones of
// k8s.io/kubernetes/test/integration/scheduler_perf, by size and by wish.
type shape struct {
	name string
	// says is what a reader of a table needs to know.
	says string
	// needs are the plugins without which the load measures nothing.
	needs []string
	// nodes, zones, existing and count replace the flags where they are not 0;
	// count is how many pods are scheduled.
	nodes, zones, existing, count int
	// interleaved says that pods differ from one to the next.
	interleaved bool
	// pod and old return the i-th pod to be scheduled, and the i-th that is
	// there already, on the node that on says; nil takes the nodes in turn.
	pod, old func(i int) *fixture.PodBuilder
	on       func(i, nodes int) int
	// objects are what else is there; may be nil.
	objects func() []runtime.Object
	// goal is how many times cheaper than kube-scheduler's Berth's algorithm
	// shall be at least; 0 where nobody said.
	goal float64
	// game says how the algorithm layer plays it; nil: as usual, and whole
	// processes run it too.
	game *game
}

// game is how a load is played by the algorithms alone.
type game struct {
	// preempt runs PostFilter for what fits nowhere.
	preempt bool
	// everyNode has Berth score all nodes that fit, and kube-scheduler its usual
	// sample: both are timed as they are, and compared on one more run of
	// kube-scheduler with all nodes.
	everyNode bool
	// solo leaves kube-scheduler out.
	solo bool
	// memory is what the Go runtime is told to keep to (GOMEMLIMIT), as the
	// manager of such a cluster would be; empty for as much as it likes.
	memory string
}

// settled returns the flags as the shape has them.
func (s shape) settled(o options) options {
	for _, f := range []struct {
		flag *int
		by   int
	}{{&o.nodes, s.nodes}, {&o.zones, s.zones}, {&o.existing, s.existing}, {&o.pods, s.count}} {
		if f.by > 0 {
			*f.flag = f.by
		}
	}
	return o
}

// missing returns the plugins that the shape needs and here has not.
func (s shape) missing(here func(plugin string) bool) []string {
	var missing []string
	for _, plugin := range s.needs {
		if !here(plugin) {
			missing = append(missing, plugin)
		}
	}
	return missing
}
