package queue

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// refuseMany has the plugin called Fit refuse n pods.
func (w *testEnv) addManyRejected(n int) {
	for i := range n {
		w.Add(w.ctx, pod(fmt.Sprint("crowd-", i)))
		w.TryPop().Refused(w.ctx, sets.New("Fit"), nil)
	}
}

func TestPodsExaminedForAnEvent(t *testing.T) {
	const crowd = 100
	for sentence, c := range map[string]struct {
		event fwk.ClusterEvent
		want  int
	}{
		"those whose plugin hears of it":               {podDelete, crowd},
		"nobody, where no plugin hears of it":          {fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}, 0},
		"nobody, where another plugin hears of it":     {podLabels, 0},
		"everybody, where all may be otherwise for it": {ForceActivate, crowd},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			w.addManyRejected(crowd)
			looked := 0
			w.Event(w.ctx, c.event, nil, nil, func(*v1.Pod) bool { looked++; return false })
			if looked != c.want {
				t.Errorf("%d of %d pods were looked at, want %d", looked, crowd, c.want)
			}
			w.check()
		})
	}
}

func TestCostOfAnEventThatConcernsNoPod(t *testing.T) {
	cost := func(crowd int) float64 {
		w := newTestEnv(t)
		w.addManyRejected(crowd)
		return testing.AllocsPerRun(10, func() { w.Event(w.ctx, podLabels, nil, nil, nil) })
	}
	// The race detector allocates a little, too.
	if one, many := cost(1), cost(1000); many > one+10 {
		t.Errorf("%v allocations beside 1000 pods that sleep, %v beside one", many, one)
	}
}
