package main

import (
	"flag"
	"testing"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/exactness/oracle/compare"
	"github.com/berthdev/berth/test/replay/generate"
)

var pairs = flag.Int("pairs", 100000, "how many pairs of a pod and a node each plugin is asked about")

// podsPerCluster is how many pods one generated cluster is looked at with.
const podsPerCluster = 40

// Each plugin for itself says of a pod and a node what kube-scheduler's says:
// the verdict, its reasons, the score as it is given and as it is normalised.
func TestGeneratedPairs(t *testing.T) {
	registry := plugins.InTree()
	for _, name := range registry.Names() {
		filters, scores := registry[name].Implements(framework.Filter), registry[name].Implements(framework.Score)
		if !filters && !scores || !upstreamconfig.IsUpstreamPlugin(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var total compare.Pairs
			seed := *firstSeed
			for ; total.Pairs < *pairs && !t.Failed(); seed++ {
				pairsOf(t, name, seed, &total)
			}
			t.Logf("seeds %d to %d: %v", *firstSeed, seed-1, &total)
			quarter := total.Pairs / 4
			if filters && total.Refused < quarter {
				t.Errorf("the pairs prove too little: a quarter must be refused")
			}
			if scores && (total.Raw < quarter || total.Final < quarter) {
				t.Errorf("the pairs prove too little: a quarter must have a score, raw and normalised")
			}
		})
	}
}

// pairsOf compares the pairs of one generated cluster.
func pairsOf(t *testing.T, plugin string, seed uint64, total *compare.Pairs) {
	g := generate.NewLooks(seed, plugin, podsPerCluster)
	looker, err := compare.NewLooker(t.Context(), plugin, g.Config())
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	for op, ok := g.Next(); ok; op, ok = g.Next() {
		diff, err := looker.Do(t.Context(), op, total)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		} else if diff != "" {
			t.Errorf("seed %d, pod %s/%s (-kube-scheduler,+Berth):\n%s", seed, op.Object.GetNamespace(), op.Object.GetName(), diff)
		}
		if t.Failed() {
			return
		}
	}
}
