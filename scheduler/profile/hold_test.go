package profile

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/probe"
)

func TestAPausedProfileCannotBeAcquired(t *testing.T) {
	w := newTestEnv(t)
	w.SetPaused("p", true)
	w.apply(1, "one", "A")
	if _, ok := w.Acquire("p"); ok {
		t.Error("acquired while it is paused since before it was applied")
	}
	if hold := w.rules["p"].Hold(&v1.Pod{}); hold.Reason != queue.ProfilePaused || !strings.Contains(hold.Message, "SchedulingProfile p is paused") {
		t.Errorf("hold %+v", hold)
	}
	w.SetPaused("p", true)
	w.wantJournal("adopt p")
	w.SetPaused("p", false)
	w.wantJournal("adopt p")
	if hold := w.rules["p"].Hold(&v1.Pod{}); hold.Reason != "" {
		t.Errorf("hold %+v after the pause", hold)
	}
	g, ok := w.Acquire("p")
	if !ok {
		t.Fatal("not acquired after the pause")
	}
	g.Release()
	w.SetPaused("p", true)
	w.Delete("p")
	w.apply(1, "one", "A")
	if _, ok := w.Acquire("p"); !ok {
		t.Error("a profile that was created anew is still paused")
	}
}

func TestAPodWithAnUnsupportedFieldIsHeld(t *testing.T) {
	w := newTestEnv(t)
	w.apply(1, "one", "A")
	w.unsupported = "spec.resourceClaims"
	want := queue.Hold{Reason: queue.Unsupported, Message: "spec.resourceClaims: not yet"}
	if hold := w.rules["p"].Hold(&v1.Pod{}); hold != want {
		t.Errorf("hold %+v, want %+v", hold, want)
	}
}

func TestACreationDuringADeletionComesAfterIt(t *testing.T) {
	w := newTestEnv(t)
	waiting := &servedProfiles{names: map[string]bool{}}
	w.Set.options.Queue = waiting
	w.apply(1, "one", "A")
	b := w.blueprint(2, "two", "B")
	var creation sync.WaitGroup
	waiting.onRemoveProfile = func() {
		creation.Go(func() {
			if err := w.Apply(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
		for range 10000 {
			runtime.Gosched() // so that it goes on, if nothing holds it up
		}
	}
	w.Delete("p")
	creation.Wait()
	w.wantRunning("two", 2)
	if !waiting.names["p"] {
		t.Error("the profile runs, and the queue does not serve it")
	}
}

// Metric series of a profile begin with its first build, whether that ends well
// or not.
func TestANameIsForgottenWhenNothingIsLeftOfIt(t *testing.T) {
	for sentence, do := range map[string]func(w *testEnv) (want []string){
		"it ran": func(w *testEnv) []string {
			w.apply(1, "one", "A")
			w.Delete("p")
			return []string{"p"}
		},
		"it runs": func(w *testEnv) []string {
			w.apply(1, "one", "A")
			w.apply(2, "two", "B")
			return nil
		},
		"it could never be built": func(w *testEnv) []string {
			b := w.blueprint(1, "one", "A")
			w.probes["A"].Statuses["New"] = probe.Fail(errors.New("no"))
			if err := w.Apply(w.t.Context(), b); err == nil {
				w.t.Fatal("built")
			}
			w.Delete("p")
			return []string{"p"}
		},
		"its last binding is not done": func(w *testEnv) []string {
			w.apply(1, "one", "A")
			g, _ := w.Acquire("p")
			w.Delete("p")
			w.Delete("p")
			w.t.Cleanup(g.Release)
			return nil
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			var forgotten []string
			w.options.Forget = func(name string) { forgotten = append(forgotten, name) }
			want := do(w)
			if !slices.Equal(forgotten, want) {
				t.Errorf("forgotten: %q, want %q", forgotten, want)
			}
		})
	}
}

func TestPodsOfAProfileThatDoesNotRunAreHeldUntilItDoes(t *testing.T) {
	w := newTestEnv(t)
	w.Hold("p", "it does not run")
	w.Hold("p", "it does not run")
	w.Hold("p", "it does not run yet")
	w.wantJournal("withhold p: ProfileNotRunning: it does not run", "withhold p: ProfileNotRunning: it does not run yet")
	w.Delete("p")
	w.wantJournal("abandon p: ProfileDeleted")
	w.Delete("p")
	w.wantJournal()
	w.Hold("p", "it does not run")
	w.apply(1, "a", "A")
	w.Hold("p", "it does not run")
	w.wantJournal("withhold p: ProfileNotRunning: it does not run", "adopt p")
}
