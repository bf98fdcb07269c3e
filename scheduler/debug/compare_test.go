package debug

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// compareLines returns the differences as lines, and how often Compare waited between
// rounds. between, unless nil, is called each time.
func (w *testEnv) compareLines(between func(round int)) (lines []string, waits int) {
	w.t.Helper()
	c, err := w.Compare(w.t.Context(), w.readAPIServer, func(_ context.Context, d time.Duration) error {
		waits++
		if between != nil {
			between(waits)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range c.Differences {
		lines = append(lines, d.Kind+" "+d.Name+" "+string(d.Type)+": "+d.APIServer+" / "+d.Berth)
	}
	return lines, waits
}

// removePod removes the pod of that name from the API server.
func (w *testEnv) removePod(name string) {
	w.pods = slices.DeleteFunc(w.pods, func(pod *v1.Pod) bool { return pod.Name == name })
}

func TestEveryDifferenceIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *testEnv)
		want   []string
	}{
		"no difference": {func(*testEnv) {}, nil},
		"a Binding that the watch has not delivered is no difference": {
			func(w *testEnv) { w.removePod("goes"); w.pods = append(w.pods, pod("goes").On("n1").Obj()) }, nil},
		"a terminated pod uses no resources": {
			func(w *testEnv) {
				ended := pod("ended").On("n1").Obj()
				ended.Status.Phase = v1.PodSucceeded
				w.pods = append(w.pods, ended)
			}, nil},
		"a pod of another scheduler is not queued": {
			func(w *testEnv) { w.pods = append(w.pods, fixture.Pod("shop/other").SchedulerName("other").Obj()) }, nil},
		"a pod whose addition was missed": {
			func(w *testEnv) { w.pods = append(w.pods, pod("new").On("n2").Obj()) }, []string{
				"Pod shop/new Missing: on node n2 / not known"}},
		"a pod whose deletion was missed": {
			func(w *testEnv) { w.removePod("runs") }, []string{
				"Pod shop/runs Extra: not known, or ended / on node n1"}},
		"a pod on another node": {
			func(w *testEnv) { w.removePod("runs"); w.pods = append(w.pods, pod("runs").On("n2").Obj()) }, []string{
				"Pod shop/runs OnAnotherNode: on node n2 / on node n1"}},
		"a pod that is assumed on another node than it is bound to": {
			func(w *testEnv) { w.removePod("goes"); w.pods = append(w.pods, pod("goes").On("n2").Obj()) }, []string{
				"Pod shop/goes OnAnotherNode: on node n2 / on node n1"}},
		"an assumed pod that was deleted": {
			func(w *testEnv) { w.removePod("goes") }, []string{
				"Pod shop/goes Extra: not known, or ended / on node n1",
				"Pod shop/goes Queued: not known, or ended / in the queue, InFlight"}},
		"a node whose addition was missed": {
			func(w *testEnv) { w.nodes = append(w.nodes, testNode("n3")) }, []string{"Node n3 Missing: known / not known"}},
		"a node whose deletion was missed": {
			func(w *testEnv) { w.nodes = w.nodes[:1] }, []string{"Node n2 Extra: not known / known"}},
		"a node with other allocatable resources": {
			func(w *testEnv) { w.nodes[1] = fixture.Node("n2").Capacity("cpu", "2", "pods", "10").Obj() }, []string{
				"Node n2 Allocatable: cpu 2000, pods 10 / cpu 4000, pods 10"}},
		"a pod with other requests": {
			func(w *testEnv) {
				w.removePod("runs")
				w.pods = append(w.pods, fixture.Pod("shop/runs").SchedulerName("p").Requests("cpu", "1").On("n1").Obj())
			}, []string{"Node n1 Requested: cpu 1500, pods 2 / cpu 1000, pods 2"}},
		"a pending pod that is not queued": {
			func(w *testEnv) { w.pods = append(w.pods, pod("lost").Obj()) }, []string{
				"Pod shop/lost NotQueued: pending, of profile p / not queued"}},
		"a queued pod that is bound": {
			func(w *testEnv) { w.removePod("waits"); w.pods = append(w.pods, pod("waits").On("n2").Obj()) }, []string{
				"Pod shop/waits Missing: on node n2 / not known",
				"Pod shop/waits Queued: on node n2 / in the queue, Unschedulable"}},
		"a queued pod that was deleted": {
			func(w *testEnv) { w.removePod("held") }, []string{
				"Pod shop/held Queued: not known, or ended / in the queue, Held"}},
		"nodes are not compared while the loop hangs": {
			func(w *testEnv) { w.loopHangs = true; w.removePod("runs") }, []string{"Pod shop/runs Extra: not known, or ended / on node n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			c.change(w)
			lines, waits := w.compareLines(nil)
			if diff := cmp.Diff(c.want, lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := 0; len(c.want) == 0 && waits != want || len(c.want) > 0 && waits != maxRounds-1 {
				t.Errorf("waited %d times", waits)
			}
		})
	}
}

// A watch may be behind or ahead: a difference that does not last is none.
func TestATransientDifferenceIsIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(w *testEnv)
		between func(w *testEnv, round int)
		want    []string
		reads   int
	}{
		"the watch catches up": {
			func(w *testEnv) { w.pods = append(w.pods, pod("new").On("n2").Obj()) },
			func(w *testEnv, round int) { w.Cache.SetPod(pod("new").On("n2").Obj()) }, nil, 2},
		"each round has another difference": {
			func(w *testEnv) { w.pods = append(w.pods, pod("new").On("n2").Obj()) },
			func(w *testEnv, round int) {
				w.Cache.SetPod(pod("new").On("n2").Obj())
				w.nodes = append(w.nodes, testNode("n3"))
			}, nil, 2},
		"a node gets a pod before each read": {
			func(w *testEnv) { w.Cache.SetPod(pod("new-0").On("n2").Obj()) },
			func(w *testEnv, round int) {
				w.pods = append(w.pods, pod(fmt.Sprint("new-", round-1)).On("n2").Obj())
				w.Cache.SetPod(pod(fmt.Sprint("new-", round)).On("n2").Obj())
			}, nil, 2},
		"one of two differences lasts": {
			func(w *testEnv) {
				w.pods = append(w.pods, pod("new").On("n2").Obj())
				w.nodes = append(w.nodes, testNode("n3"))
			},
			func(w *testEnv, round int) { w.Cache.SetPod(pod("new").On("n2").Obj()) }, []string{"Node n3 Missing: known / not known"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			c.change(w)
			lines, _ := w.compareLines(func(round int) { c.between(w, round) })
			if diff := cmp.Diff(c.want, lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if w.reads != c.reads {
				t.Errorf("read %d times, want %d", w.reads, c.reads)
			}
		})
	}
}

func TestAssumedPodsAreListed(t *testing.T) {
	w := newTestEnv(t)
	c, err := w.Compare(t.Context(), w.readAPIServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []PodOnNode{{PodRef{"shop", "goes", uidOf("goes")}, "n1"}}
	if diff := cmp.Diff(want, c.Assumed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
