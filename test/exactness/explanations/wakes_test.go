package explanations

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/replay/run"
)

// sleeper is a pod that was refused.
type sleeper struct {
	*run.Berth
	*bedroom
	pod   *v1.Pod
	unfit *framework.FitError
}

// proveWoken gives a node what it misses while the pod sleeps, and then has pods
// leave it instead: what happens there is among what is said to wake the pod, and
// wakes it.
func proveWoken(t *testing.T, s sleeper, miss v1alpha1.ClosestNode, total *counts) {
	t.Helper()
	before := s.Node(miss.Node)
	after, room := before.DeepCopy(), true
	// One change of the node may be several events, of which one has to be named.
	event, other := "Node/UpdateAllocatable", ""
	for _, m := range miss.Missing {
		if give(after, spread(s.Berth, s.pod), m, false, total) != "" {
			return // it takes more than the node
		}
		if m.Resource == "" {
			event, room = "Node/UpdateTaint", false
		} else {
			other = "Node/UpdateAllocatable"
		}
	}
	if other != "" && !s.names(s.unfit, event, "Node/Update") {
		event = other
	}
	s.expectWoken(t, miss, event, func() error { return s.nodes().Apply(after) }, func() error { return s.nodes().Apply(before) })
	total.Woken++
	if leavers := s.whoMustLeave(miss.Node); room && len(leavers) > 0 {
		s.expectWoken(t, miss, "AssignedPod/Delete", func() error {
			for _, pod := range leavers {
				if err := s.pods().Remove(pod); err != nil {
					return err
				}
			}
			return nil
		}, func() error {
			for _, pod := range leavers {
				if err := s.pods().Apply(pod); err != nil {
					return err
				}
			}
			return nil
		})
		total.Freed++
	}
}

// expectWoken has the change happen after all was as it was.
func (s sleeper) expectWoken(t *testing.T, miss v1alpha1.ClosestNode, event string, change, undo func() error) {
	t.Helper()
	if !s.names(s.unfit, event, "Node/Update") {
		t.Errorf("pod %s, which misses %+v on %s, is not said to be woken by %s", s.pod.Name, miss.Missing, miss.Node, event)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	woken, err := s.wakes(t.Context(), s.Blueprint().Name, s.pod, s.unfit, change)
	if err != nil {
		t.Fatal(err)
	}
	if !woken {
		t.Errorf("%s of what pod %s misses on %s does not wake it: %+v", event, s.pod.Name, miss.Node, miss.Missing)
	}
}

// whoMustLeave are pods of a node after whose leaving the pod fits there; none
// where it would not.
func (s sleeper) whoMustLeave(node string) (leavers []*v1.Pod) {
	for _, info := range slices.Clone(s.LastRequest().Snapshot.Node(node).GetPods()) {
		leavers = append(leavers, info.GetPod())
	}
	if len(leavers) == 0 || !s.FitsWithout(s.pod, node, leavers) {
		return nil
	}
	return leavers
}
