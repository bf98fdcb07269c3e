package queue

import (
	"fmt"
	"slices"
	"testing"
)

// A held or gated pod is reported once for each reason, and no more when it is deleted.
func TestTakeHoldChanges(t *testing.T) {
	w := newTestEnv(t)
	want := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, c := range w.TakeHoldChanges() {
			got = append(got, fmt.Sprint(c.Pod.Name, " ", c.Hold.Reason+c.Gate, " ", c.ConditionStale))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	w.rules.Key.Plugins = map[string]string{}
	w.setProfile()
	w.closedGates.Insert("Gate")
	w.Add(w.ctx, pod("a"))
	want("a gated pod", "a Gate false")
	w.nodeEvent(nodeLabel, "n1")
	want("gated again")
	w.closedGates.Insert("Another")
	w.nodeEvent(nodeLabel, "n1")
	want("gated by another plugin", "a Another false")

	w.hold, w.rules.Key.Holds = Hold{Reason: ProfilePaused}, "Paused"
	w.setProfile()
	w.Add(w.ctx, pod("b"))
	w.Add(w.ctx, pod("c"))
	w.Delete(pod("c").UID)
	want("held pods", "a ProfilePaused true", "b ProfilePaused true")
	w.hold, w.rules.Key.Holds = Hold{}, ""
	w.setProfile()
	want("gated after a hold", "a Another true", "b Another true")
	w.rules.Key.Explanations = "all"
	w.setProfile()
	want("explained differently", "a Another false", "b Another false")
}
