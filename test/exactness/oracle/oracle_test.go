package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/plugins/dynamicresources"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/exactness/oracle/compare"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	decisions      = flag.Int("decisions", 20000, "number of generated decisions")
	firstSeed      = flag.Uint64("seed", 1, "first seed")
	referenceEvery = flag.Uint64("reference", 4, "one in this many histories runs Berth's reference implementations")
	least          = flag.Int("least", 5, "how often each plugin must refuse a node, change the chosen node, and decide by each feature")
)

// perHistory is the number of attempts in a generated history.
const perHistory = 100

// Histories in which a difference was found once.
func TestSavedCases(t *testing.T) {
	for _, config := range []run.Config{{}, {Preempt: true}} {
		testCases(t, casesOf(config), config.Preempt)
	}
}

// casesOf returns the folder of saved histories.
func casesOf(config run.Config) string {
	if config.Preempt {
		return "cases/preempt"
	}
	return "cases"
}

// modes are how Berth runs a history.
var modes = []struct {
	name   string
	plain  bool
	opaque []string
}{
	{name: "equivalence cache"},
	{name: "reference implementations", plain: true},
	{name: "opaque plugins", opaque: opaquePlugins},
}

// opaquePlugins may be made opaque: plugins of every kind.
var opaquePlugins = []string{
	"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread",
	"InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality",
}

// modeOf returns how the history of a seed is run: one in *referenceEvery with the reference
// implementations, and of the others every third with some opaque plugins.
func modeOf(seed uint64) (plain bool, opaque []string) {
	switch {
	case seed%*referenceEvery == 0:
		return true, nil
	case seed%3 == 0:
		for i, name := range opaquePlugins {
			if seed/3>>i&1 == 1 {
				opaque = append(opaque, name)
			}
		}
	}
	return false, opaque
}

func testCases(t *testing.T, dir string, preempt bool) {
	cases, err := compare.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			c.Config.Preempt = preempt
			for _, way := range modes {
				c.Config.Reference, c.Config.Opaque = way.plain, way.opaque
				difference, err := compare.Run(c.Config, &compare.Recorded{Ops: c.Ops}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if difference != nil {
					t.Errorf("%s/%s.jsonl, line %d, %s:\n%v", dir, c.Name, c.Ops[difference.Op].Line, way.name, difference)
				}
			}
		})
	}
}

func TestGeneratedDecisions(t *testing.T) {
	covered := compareAll(t, *decisions, func(seed uint64) *generate.Generator { return generate.New(seed, perHistory) })
	if t.Failed() {
		return
	}
	for _, short := range slices.Concat(covered.MissingPlugins(*least), covered.MissingFeatures(*least), covered.MissingChanges(*least)) {
		t.Errorf("the histories test too little: %s", short)
	}
	if covered.Refused*100 < covered.Attempts*15 {
		t.Errorf("the histories test too little: %d of %d attempts were refused, want 15 %%", covered.Refused, covered.Attempts)
	}
}

var deviceDecisions = flag.Int("device-decisions", 5000, "number of generated decisions in clusters with devices")

// Pods with claims and extended resources are decided the same, beside all other features.
func TestGeneratedDecisionsWithDevices(t *testing.T) {
	covered := compareAll(t, *deviceDecisions, func(seed uint64) *generate.Generator { return generate.NewWithDevices(seed, perHistory) })
	if t.Failed() {
		return
	}
	for _, short := range covered.MissingDevices(*deviceDecisions / 2500) {
		t.Errorf("the histories test too little: %s", short)
	}
}

// compareAll compares this many decisions of generated histories, from the first seed on, and
// returns what they covered.
func compareAll(t *testing.T, decisions int, history func(seed uint64) *generate.Generator) *compare.Coverage {
	covered := compare.NewCoverage()
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		taken atomic.Uint64
	)
	histories := uint64((decisions + perHistory - 1) / perHistory)
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := taken.Add(1) - 1; i < histories && !t.Failed(); i = taken.Add(1) - 1 {
				mine := compare.NewCoverage()
				compareHistory(t, *firstSeed+i, history(*firstSeed+i), mine)
				mu.Lock()
				covered.Add(mine)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("seeds %d to %d: %v", *firstSeed, *firstSeed+histories-1, covered)
	return covered
}

// compareHistory compares one history; one with a difference is shrunk and saved as a case.
func compareHistory(t *testing.T, seed uint64, g *generate.Generator, covered *compare.Coverage) {
	config := g.Config()
	config.Reference, config.Opaque = modeOf(seed)
	history := &compare.Recorder{Source: source{g}}
	difference, err := compare.Run(config, history, covered)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	if difference == nil {
		return
	}
	found := compare.Case{Name: fmt.Sprintf("seed-%d", seed), Config: config, Ops: compare.Shrink(config, history.Ops)}
	if smaller, err := compare.Run(config, &compare.Recorded{Ops: found.Ops}, nil); err == nil && smaller != nil {
		difference = smaller
	}
	dir := casesOf(g.Config())
	if err := found.Save(dir); err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d, reference %v, opaque plugins %v, shrunk to %d ops in %s/%s.jsonl:\n%v", seed, config.Reference, config.Opaque, len(found.Ops), dir, found.Name, difference)
}

// source is a generator as a compare.Source.
type source struct{ *generate.Generator }

func (s source) Next() (log.Op, error) {
	op, ok := s.Generator.Next()
	if !ok {
		return log.Op{}, io.EOF
	}
	return op, nil
}

var _ compare.Source = source{}

func (s source) Observe(o *run.Outcome) { s.Generator.Observe(o) }

var stanzas = flag.Int("stanzas", 10000, "number of generated plugins stanzas")

// Berth runs the same chains as kube-scheduler for every profile that both accept. Berth may
// refuse what kube-scheduler accepts, such as a weight where nothing scores; what Berth
// accepts kube-scheduler accepts.
func TestGeneratedStanzasGiveTheSameChains(t *testing.T) {
	var equal, refused, stricter int
	for seed := *firstSeed; equal < *stanzas; seed++ {
		config := run.Config{Profile: run.DefaultProfile()}
		generate.Stanza(rand.New(rand.NewPCG(seed, 0)), &config.Profile.Spec, seed%4 == 0)
		blueprint, rejection := compile.Profile(compile.Input{Profile: config.Profile, Registry: plugins.InTree()})
		theirs, err := upstream.Chains(config)
		switch {
		case rejection != nil && err != nil:
			refused++
		case rejection != nil:
			stricter++
		case err != nil:
			t.Errorf("seed %d: Berth accepts what kube-scheduler refuses (%v):\n%s", seed, err, stanza(t, config))
		default:
			equal++
			if diff := cmp.Diff(theirs, blueprint.Chains); diff != "" {
				t.Errorf("seed %d: chains (-kube-scheduler,+Berth):\n%s%s", seed, diff, stanza(t, config))
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d stanzas with equal chains, %d that both refuse, %d that Berth alone refuses", equal, refused, stricter)
}

func stanza(t *testing.T, config run.Config) string {
	text, err := yaml.Marshal(config.Profile.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var preemptions = flag.Int("preemptions", 10000, "number of generated decisions in full clusters")

// Victims, candidates and the nominated node are those of kube-scheduler, where its criteria
// leave no choice.
func TestGeneratedPreemptions(t *testing.T) {
	covered := compareAll(t, *preemptions, func(seed uint64) *generate.Generator { return generate.NewPreempting(seed, perHistory) })
	if t.Failed() {
		return
	}
	for _, short := range covered.Preemptions.Short(*preemptions / 1000) {
		t.Errorf("the histories test too little: %s", short)
	}
}

var pairs = flag.Int("pairs", 100000, "number of pairs of a pod and a node that each plugin evaluates")

// podsPerCluster is the number of pods that are evaluated in one generated cluster.
const podsPerCluster = 40

// Each plugin by itself returns the same for a pod and a node as kube-scheduler's: the
// verdict, its reasons, the raw and the normalised score.
func TestGeneratedPairs(t *testing.T) {
	registry := plugins.InTree()
	for _, name := range registry.Names() {
		filters, scores := registry[name].Implements(framework.Filter), registry[name].Implements(framework.Score)
		// DynamicResources has generated clusters of its own, and kube-scheduler builds it once
		// in a process only.
		if !filters && !scores || !upstreamconfig.IsUpstreamPlugin(name) || name == dynamicresources.Name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var total compare.Pairs
			seed := *firstSeed
			for ; total.Pairs < *pairs && !t.Failed(); seed++ {
				comparePairs(t, name, seed, &total)
			}
			t.Logf("seeds %d to %d: %v", *firstSeed, seed-1, &total)
			quarter := total.Pairs / 4
			if filters && total.Refused < quarter {
				t.Errorf("the pairs test too little: a quarter must be refused")
			}
			if scores && (total.Raw < quarter || total.Final < quarter) {
				t.Errorf("the pairs test too little: a quarter must have a score, raw and normalised")
			}
		})
	}
}

// comparePairs compares the pairs of one generated cluster.
func comparePairs(t *testing.T, plugin string, seed uint64, total *compare.Pairs) {
	g := generate.NewEvaluations(seed, plugin, podsPerCluster)
	looker, err := compare.NewPluginPair(t.Context(), plugin, g.Config())
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
