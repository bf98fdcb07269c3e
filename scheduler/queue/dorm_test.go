package queue

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// addManyRejected adds n pods that plugin Fit refuses.
func (w *testEnv) addManyRejected(n int) {
	for i := range n {
		w.Add(w.ctx, pod(fmt.Sprint("pod-", i)))
		w.TryPop().Refused(w.ctx, sets.New("Fit"), nil)
	}
}

func TestPodsExaminedForAnEvent(t *testing.T) {
	const total = 100
	for sentence, c := range map[string]struct {
		event fwk.ClusterEvent
		want  int
	}{
		"pods whose plugin registered for it":      {podDelete, total},
		"none if no plugin registered for it":      {fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}, 0},
		"none if another plugin registered for it": {podLabels, 0},
		"all for a wildcard event":                 {ForceActivate, total},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			w.addManyRejected(total)
			examined := 0
			w.Event(w.ctx, c.event, nil, nil, func(*v1.Pod) bool { examined++; return false })
			if examined != c.want {
				t.Errorf("%d of %d pods were examined, want %d", examined, total, c.want)
			}
			w.check()
		})
	}
}

func TestCostOfAnEventThatConcernsNoPod(t *testing.T) {
	cost := func(pods int) float64 {
		w := newTestEnv(t)
		w.addManyRejected(pods)
		return testing.AllocsPerRun(10, func() { w.Event(w.ctx, podLabels, nil, nil, nil) })
	}
	// The race detector allocates a little, too.
	if one, many := cost(1), cost(1000); many > one+10 {
		t.Errorf("%v allocations with 1000 unschedulable pods, %v with one", many, one)
	}
}
