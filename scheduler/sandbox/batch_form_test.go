package sandbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// cacheablePlugin is a plugin that declares what it reads, so that its verdicts are
// cached and its batch form is used.
type cacheablePlugin struct {
	name   string
	filter func() *fwk.Status
}

var (
	_ fwk.QueueSortPlugin     = &cacheablePlugin{}
	_ fwk.PreFilterPlugin     = &cacheablePlugin{}
	_ fwk.FilterPlugin        = &cacheablePlugin{}
	_ framework.ReadsDeclarer = &cacheablePlugin{}
)

func (o *cacheablePlugin) Name() string { return o.name }

func (*cacheablePlugin) Less(a, b fwk.QueuedEntityInfo) bool {
	return a.GetTimestamp().Before(b.GetTimestamp())
}

func (*cacheablePlugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodNodeName, Filter: framework.NodeName}
}

func (*cacheablePlugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (*cacheablePlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (o *cacheablePlugin) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return o.filter()
}

// newCacheableCandidate builds plugins whose verdicts are cached: First accepts all pods,
// and Second returns what on returns.
func newCacheableCandidate(t *testing.T, cluster *Cluster, on func() *fwk.Status) Candidate {
	t.Helper()
	registry := framework.Registry{}
	for _, o := range []*cacheablePlugin{{"First", func() *fwk.Status { return nil }}, {"Second", on}} {
		registry[o.name] = framework.Registration{Name: o.name, Points: framework.PointsOf(o),
			New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return o, nil }}
	}
	first, second := framework.Entry{Name: "First"}, framework.Entry{Name: "Second"}
	c := buildCandidate(t, cluster, registry, framework.Chains{
		framework.QueueSort: {first}, framework.PreFilter: {first}, framework.Filter: {first, second},
	})
	if c.Framework.IsOpaque(fixture.Pod("any").Obj(), "") {
		t.Fatal("the verdicts of the plugins cannot be cached")
	}
	return c
}

func TestACacheablePluginIsEvaluatedByItsBatchForm(t *testing.T) {
	state := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj()).mustRead(t)
	for name, c := range map[string]struct {
		on   func() *fwk.Status
		want string
	}{
		"it accepts the pod": {func() *fwk.Status { return nil }, "fits"},
		"it rejects the pod": {func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "full") }, "0/1 nodes are available: 1 full."},
		"it panics":          {func() *fwk.Status { panic("no map") }, `failure: plugin "Second" panicked in Filter: no map`},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := state.NewCluster()
			results, err := cluster.Evaluate(t.Context(), newCacheableCandidate(t, cluster, c.on), state.Pods())
			if diff := cmp.Diff([]string{c.want}, resultTexts(results)); diff != "" || err != nil {
				t.Errorf("%v; results (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestABatchFormThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj()).mustRead(t)
		cluster, release := state.NewCluster(), make(chan struct{})
		c := newCacheableCandidate(t, cluster, func() *fwk.Status { <-release; return nil })
		_, err := cluster.Evaluate(t.Context(), c, state.Pods())
		var late *LateError
		if !errors.As(err, &late) || late.Call != (framework.Call{Plugin: "Second", Point: "Filter"}) {
			t.Fatalf("%v, want that Second did not return from Filter", err)
		}
		close(release)
		<-late.Watch.Done()
	})
}
