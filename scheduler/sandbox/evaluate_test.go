package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// resultTexts returns results as text.
func resultTexts(results Results) []string {
	out := []string{}
	for _, result := range results {
		switch {
		case result == nil:
			out = append(out, "fits")
		case Rejected(result):
			out = append(out, result.Error())
		default:
			out = append(out, "failure: "+result.Error())
		}
	}
	return out
}

func TestResultOfOnePod(t *testing.T) {
	two := []metav1.Object{fixture.Node("a").Obj(), fixture.Node("b").Obj()}
	for name, c := range map[string]struct {
		nodes []metav1.Object
		on    map[string]probe.StatusFunc
		want  string
	}{
		"a pod that fits":                                   {nodes: two, want: "fits"},
		"a pod that fits on one node":                       {nodes: two, on: map[string]probe.StatusFunc{"Filter a": probe.Reject("full")}, want: "fits"},
		"a pod that fits nowhere":                           {nodes: two, on: map[string]probe.StatusFunc{"Filter": probe.Reject("full")}, want: "0/2 nodes are available: 2 full."},
		"no nodes":                                          {want: "no nodes available to schedule pods"},
		"a pod that a PreEnqueue plugin rejects":            {nodes: two, on: map[string]probe.StatusFunc{"PreEnqueue": probe.Reject("shut")}, want: "gated by PreEnqueue plugin A: shut"},
		"a panic in PreEnqueue":                             {nodes: two, on: map[string]probe.StatusFunc{"PreEnqueue": probe.Panic}, want: `failure: plugin "A" panicked in PreEnqueue: the probe panics`},
		"a panic in PreFilter":                              {nodes: two, on: map[string]probe.StatusFunc{"PreFilter": probe.Panic}, want: `failure: plugin "A" panicked in PreFilter: the probe panics`},
		"a panic in Filter":                                 {nodes: two, on: map[string]probe.StatusFunc{"Filter b": probe.Panic}, want: `failure: plugin "A" panicked in Filter: the probe panics`},
		"a Goexit in PreEnqueue":                            {nodes: two, on: map[string]probe.StatusFunc{"PreEnqueue": probe.Goexit}, want: `failure: plugin "A" ended its goroutine (runtime.Goexit) in PreEnqueue`},
		"a Goexit in Filter":                                {nodes: two, on: map[string]probe.StatusFunc{"Filter b": probe.Goexit}, want: `failure: plugin "A" ended its goroutine (runtime.Goexit) in Filter`},
		"an error in PreScore":                              {nodes: two, on: map[string]probe.StatusFunc{"PreScore": probe.Fail(errors.New("no"))}, want: `failure: running PreScore plugin "A": no`},
		"an error in Score":                                 {nodes: two, on: map[string]probe.StatusFunc{"Score": probe.Fail(errors.New("no"))}, want: `failure: running Score plugins: plugin "A" failed with: no`},
		"plugins after the node is selected are not called": {nodes: two, on: map[string]probe.StatusFunc{"Reserve": probe.Panic, "Permit": probe.Panic, "PreBind": probe.Panic, "Bind": probe.Panic}, want: "fits"},
		"PostFilter plugins are not called":                 {nodes: two, on: map[string]probe.StatusFunc{"Filter": probe.Reject("full"), "PostFilter": probe.Panic}, want: "0/2 nodes are available: 2 full."},
	} {
		t.Run(name, func(t *testing.T) {
			state := newSource(append(slices.Clone(c.nodes), podOfProfile("web").Obj())...).mustRead(t)
			cluster, a := state.NewCluster(), newProbe("A")
			a.Statuses = c.on
			results, err := cluster.Evaluate(t.Context(), newCandidate(t, cluster, a), state.Pods())
			if diff := cmp.Diff([]string{c.want}, resultTexts(results)); diff != "" || err != nil {
				t.Errorf("%v; results (-want +got):\n%s", err, diff)
			}
		})
	}
}

// rejectAbove returns a filter that rejects nodes with limit pods or more.
func rejectAbove(limit int) func(node fwk.NodeInfo) *fwk.Status {
	return func(node fwk.NodeInfo) *fwk.Status {
		if len(node.GetPods()) < limit {
			return nil
		}
		return fwk.NewStatus(fwk.Unschedulable, "full")
	}
}

func TestPodsThatTakeResourcesInTheSandbox(t *testing.T) {
	first, second, third := podOfProfile("first").CreationOrder(1).Obj(), podOfProfile("second").CreationOrder(2).Obj(), podOfProfile("third").CreationOrder(3).Obj()
	for name, c := range map[string]struct {
		pods      []metav1.Object
		nominated *v1.Pod
		want      []string
	}{
		"a pod that fits uses resources that later pods do not find": {
			pods: []metav1.Object{first, second, third},
			want: []string{"fits", "fits", "0/1 nodes are available: 1 full."},
		},
		"a running pod is evaluated without its own resources, and keeps them": {
			pods: []metav1.Object{assignedPod("runs", "a", 1).Obj(), fixture.Pod("other").On("a").Obj(), first},
			want: []string{"fits", "0/1 nodes are available: 1 full."},
		},
		"a nominated pod takes the resources of its nomination, and no other pod": {
			pods: []metav1.Object{first, second, third}, nominated: third,
			want: []string{"fits", "0/1 nodes are available: 1 full.", "fits"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := newSourceWithNomination(t, c.nominated, append(c.pods, fixture.Node("a").Obj())...).mustRead(t)
			cluster := state.NewCluster()
			before := contents(cluster)
			for range 2 { // the second evaluation finds the same state
				results, err := cluster.Evaluate(t.Context(), newFilterCandidate(t, cluster, rejectAbove(2)), state.Pods())
				if diff := cmp.Diff(c.want, resultTexts(results)); diff != "" || err != nil {
					t.Errorf("%v; results (-want +got):\n%s", err, diff)
				}
				if diff := cmp.Diff(before, contents(cluster)); diff != "" {
					t.Errorf("the sandbox (-before +after):\n%s", diff)
				}
			}
		})
	}
}

func TestAPluginThatHangsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := newSource(fixture.Node("a").Obj(), fixture.Node("b").Obj(), podOfProfile("first").CreationOrder(1).Obj(), podOfProfile("second").CreationOrder(2).Obj()).mustRead(t)
		cluster, a := state.NewCluster(), newProbe("A")
		release, calls := make(chan struct{}), 0
		a.Statuses["Score"] = func() *fwk.Status {
			if calls++; calls > 2 {
				<-release
			}
			return nil
		}
		results, err := cluster.Evaluate(t.Context(), newCandidate(t, cluster, a), state.Pods())
		var late *LateError
		if !errors.As(err, &late) || late.Pod.Name != "second" || late.Call != (framework.Call{Plugin: "A", Point: "Score"}) {
			t.Fatalf("%v, want that A did not return from Score for the second pod", err)
		}
		if want := `pod default/second: plugin "A" did not come back from Score within 2s`; err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if diff := cmp.Diff([]string{"fits"}, resultTexts(results)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		close(release)
		<-late.Watch.Done()
	})
}

func TestALateResultDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj()).mustRead(t)
		cluster, a := state.NewCluster(), newProbe("A")
		a.Statuses["Filter"] = func() *fwk.Status { time.Sleep(Timeout + 1); return nil }
		slow := newCandidate(t, cluster, a)
		slow.Framework.Wait = func(_ context.Context, until <-chan struct{}) error { <-until; return nil }
		results, err := cluster.Evaluate(t.Context(), slow, state.Pods())
		var late *LateError
		if !errors.As(err, &late) || late.Call != (framework.Call{Plugin: "A", Point: "Filter"}) || len(results) > 0 {
			t.Errorf("%v, %v; want that A returned too late", resultTexts(results), err)
		}
	})
}

func TestEvaluationTimeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []metav1.Object{fixture.Node("a").Obj()}
		for i := range 100 {
			objects = append(objects, podOfProfile(fmt.Sprint("web-", i)).CreationOrder(i).Obj())
		}
		state := newSource(objects...).mustRead(t)
		cluster, a := state.NewCluster(), newProbe("A")
		a.Statuses["PreEnqueue"] = func() *fwk.Status { time.Sleep(Timeout / 10); return nil }
		results, err := cluster.Evaluate(t.Context(), newCandidate(t, cluster, a), state.Pods())
		if err != nil || len(results) != 10 {
			t.Errorf("%d results, %v; want as many as there was time for, 10", len(results), err)
		}
	})
}

func TestAnEndedContextIsNoResult(t *testing.T) {
	state := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj()).mustRead(t)
	cluster, a := state.NewCluster(), newProbe("A")
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	a.Statuses["Filter"] = func() *fwk.Status { cancel(); <-release; return nil }
	results, err := cluster.Evaluate(ctx, newCandidate(t, cluster, a), state.Pods())
	var late *LateError
	if !errors.As(err, &late) || !errors.Is(err, context.Canceled) || len(results) > 0 {
		t.Errorf("%v, %v; want that the context ended", resultTexts(results), err)
	}
	close(release)
	<-late.Watch.Done()
}

func TestQueueSortIsEvaluated(t *testing.T) {
	take := func(t *testing.T) (*ClusterState, *Cluster, *probe.Plugin) {
		state := newSource(fixture.Node("n").Obj(), podOfProfile("first").CreationOrder(1).Obj(), podOfProfile("second").CreationOrder(2).Obj()).mustRead(t)
		return state, state.NewCluster(), newProbe("A")
	}
	t.Run("one that panics is a failure", func(t *testing.T) {
		state, cluster, a := take(t)
		a.Statuses["Less"] = probe.Panic
		results, err := cluster.Evaluate(t.Context(), newCandidate(t, cluster, a), state.Pods())
		want := []string{"fits", `failure: plugin "A" panicked in Less: the probe panics`}
		if diff := cmp.Diff(want, resultTexts(results)); diff != "" || err != nil {
			t.Errorf("%v; results (-want +got):\n%s", err, diff)
		}
	})
	t.Run("one that hangs is named", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			state, cluster, a := take(t)
			release := make(chan struct{})
			a.Statuses["Less"] = func() *fwk.Status { <-release; return nil }
			_, err := cluster.Evaluate(t.Context(), newCandidate(t, cluster, a), state.Pods())
			var late *LateError
			if !errors.As(err, &late) || late.Call != (framework.Call{Plugin: "A", Point: "Less"}) || late.Pod.Name != "second" {
				t.Fatalf("%v, want that A did not return from Less for the second pod", err)
			}
			close(release)
			<-late.Watch.Done()
		})
	})
}
