package framework_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

type stateData struct{ text string }

func (n *stateData) Clone() fwk.StateData { return &stateData{text: n.text} }

func TestStateDataIsReadAsItWasWritten(t *testing.T) {
	state := framework.NewCycleState()
	if _, err := state.Read("a"); !errors.Is(err, fwk.ErrNotFound) {
		t.Errorf("reading a missing key: %v, want ErrNotFound", err)
	}
	state.Write("a", &stateData{text: "first"})
	state.Write("a", &stateData{text: "second"})
	got, err := state.Read("a")
	if err != nil || got.(*stateData).text != "second" {
		t.Errorf("got %v, %v, want the second value", got, err)
	}
	state.Delete("a")
	if _, err := state.Read("a"); !errors.Is(err, fwk.ErrNotFound) {
		t.Errorf("reading a deleted key: %v, want ErrNotFound", err)
	}
}

func TestAClonedStateHasItsOwnData(t *testing.T) {
	state := framework.NewCycleState()
	state.Write("a", &stateData{text: "original"})
	state.SetSkipFilterPlugins(sets.New("F"))
	state.SetSkipScorePlugins(sets.New("S"))
	state.SetSkipPreBindPlugins(sets.New("B"))
	state.SetParallelPreBindPlugins(sets.New("P"))
	state.SetSkipAllPostFilterPlugins(true)
	state.SetRecordPluginMetrics(true)

	clone := state.Clone()
	mine, err := clone.Read("a")
	if err != nil {
		t.Fatal(err)
	}
	mine.(*stateData).text = "changed"
	if theirs, _ := state.Read("a"); theirs.(*stateData).text != "original" {
		t.Error("changing the clone's data changed the original")
	}
	got := []sets.Set[string]{clone.GetSkipFilterPlugins(), clone.GetSkipScorePlugins(),
		clone.GetSkipPreBindPlugins(), clone.GetParallelPreBindPlugins()}
	want := []sets.Set[string]{sets.New("F"), sets.New("S"), sets.New("B"), sets.New("P")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	if !clone.ShouldSkipAllPostFilterPlugins() || !clone.ShouldRecordPluginMetrics() {
		t.Error("the clone lost a flag")
	}
}

func TestANilStateHasANilCloneAndNoMetrics(t *testing.T) {
	var state *framework.CycleState
	if state.Clone() != nil || state.ShouldRecordPluginMetrics() {
		t.Error("want a nil clone and no metrics")
	}
}

func TestBindingDataComesBackFromTheState(t *testing.T) {
	state := framework.NewCycleState()
	if diff := cmp.Diff(framework.BindingData{}, framework.ReadBindingData(state)); diff != "" {
		t.Errorf("nothing written (-want +got):\n%s", diff)
	}
	want := framework.BindingData{Annotations: map[string]string{"a": "b"}, ResourceVersion: "7"}
	framework.WriteBindingData(state, &want)
	if diff := cmp.Diff(want, framework.ReadBindingData(state.Clone())); diff != "" {
		t.Errorf("from a clone (-want +got):\n%s", diff)
	}
}
