package cycle_test

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// selective is a plugin with a selector of its own.
type labelSelectingPlugin struct{ *probe.Plugin }

func (labelSelectingPlugin) SelectedLabels(keys *framework.LabelKeys) { keys.Insert("tier") }

// A Memo is made while a profile is built, and the loop goes on meanwhile.
func TestNewEquivalenceCacheDoesNotChangeTheSnapshotsLabels(t *testing.T) {
	held := cache.New()
	host := framework.Host{Clock: clock.RealClock{}, Lister: held.Snapshot(), Nominator: held.Nominator}
	p := labelSelectingPlugin{&probe.Plugin{PluginName: "A", Log: &probe.CallLog{}}}
	registry := framework.Registry{"A": framework.Registration{
		Name: "A", Points: framework.Points,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil },
	}}
	f, err := framework.New(t.Context(), framework.Config{Profile: "p", Chains: probe.Chains([]*probe.Plugin{p.Plugin})}, registry, host)
	if err != nil {
		t.Fatal(err)
	}
	memo := cycle.NewEquivalenceCache(f)
	if found := held.Snapshot().SelectorLabelKeys().List(); len(found) != 0 {
		t.Errorf("once it is made, the loop reads %q", found)
	}
	if _, err := memo.PodInfo(fixture.Pod("a").Obj()); err != nil {
		t.Fatal(err)
	}
	if found := held.Snapshot().SelectorLabelKeys().List(); !slices.Equal(found, []string{"tier"}) {
		t.Errorf("once a pod was looked up, the loop reads %q", found)
	}
}
