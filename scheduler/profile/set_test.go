package profile

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/probe"
)

func TestAProfileRunsFromItsFirstApplyToItsDeletion(t *testing.T) {
	w := newTestEnv(t)
	w.wantRunning("", 0)
	if _, ok := w.Acquire("p"); ok {
		t.Error("acquired what nobody applied")
	}
	w.apply(1, "one", "A")
	w.wantRunning("one", 1)
	g, ok := w.Acquire("p")
	if !ok || g.Blueprint().Hash != "one" {
		t.Fatalf("acquired %v", g)
	}
	g.Release()
	if isClosed(g) {
		t.Error("closed while it serves the profile")
	}
	w.Delete("p")
	w.wantRunning("", 0)
	if !isClosed(g) {
		t.Error("not closed after the profile was deleted")
	}
	w.wantJournal("adopt p", "abandon p: ProfileDeleted", "A.Close")
	w.Delete("p")
	w.wantJournal()
}

func TestAGenerationClosesWithItsLastBinding(t *testing.T) {
	w := newTestEnv(t)
	w.apply(1, "one", "A")
	first, _ := w.Acquire("p")
	second, _ := w.Acquire("p")
	w.apply(2, "two", "B")
	w.wantRunning("two", 2)
	w.wantJournal("adopt p", "adopt p")
	first.Release()
	if isClosed(first) {
		t.Fatal("closed while a binding goes on")
	}
	w.wantJournal()
	second.Release()
	if !isClosed(first) {
		t.Error("not closed after its last binding")
	}
	w.wantJournal("A.Close")
	if current, ok := w.Acquire("p"); !ok || current == first {
		t.Error("the closed generation is handed out")
	}
}

func TestTheOldGenerationClosesAfterTheQueueHasTheNewRules(t *testing.T) {
	w := newTestEnv(t)
	w.apply(1, "one", "A")
	old, _ := w.Acquire("p")
	old.Release()
	w.onSetProfile = func() {
		if isClosed(old) {
			t.Error("closed while the queue may still ask its plugins")
		}
	}
	w.apply(2, "two", "B")
	if !isClosed(old) {
		t.Error("not closed after the swap")
	}
}

func TestTheSameHashKeepsRunning(t *testing.T) {
	w := newTestEnv(t)
	w.apply(1, "one", "A")
	since, _ := w.Running("p")
	g, _ := w.Acquire("p")
	defer g.Release()
	w.wantJournal("adopt p")
	w.apply(7, "one", "A")
	w.wantJournal()
	w.wantRunning("one", 7)
	if now, _ := w.Running("p"); now.Since != since.Since {
		t.Error("it is said to run since the second apply")
	}
	if g.Blueprint().Generation != 7 {
		t.Errorf("a binding under way reports generation %d, want 7", g.Blueprint().Generation)
	}
}

func TestAFailedBuildKeepsTheRunningGeneration(t *testing.T) {
	for sentence, answers := range map[string]map[string]probe.StatusFunc{
		"a factory that fails":            {"New": probe.Fail(errors.New("no"))},
		"a factory that panics":           {"New": probe.Panic},
		"events that cannot be told":      {"EventsToRegister": probe.Fail(errors.New("no"))},
		"a panic while events are told":   {"EventsToRegister": probe.Panic},
		"a plugin that closes in a panic": {"EventsToRegister": probe.Panic, "Close": probe.Panic},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			w.apply(1, "one", "A")
			b := w.blueprint(2, "two", "B")
			w.probes["B"].Statuses = answers
			w.journal.Take()
			err := w.Apply(t.Context(), b)
			var failed *BuildError
			if !errors.As(err, &failed) || failed.Plugin != "B" || !strings.Contains(err.Error(), "plugin B could not be built") {
				t.Errorf("%T %v, want a BuildError that names B", err, err)
			}
			w.wantRunning("one", 1)
			if lines := w.journal.Take(); len(lines) > 0 && lines[0] == "adopt p" {
				t.Error("the queue was told of a swap that did not take place")
			}
			if g, ok := w.Acquire("p"); !ok {
				t.Error("what ran is not to be had any more")
			} else {
				g.Release()
			}
		})
	}
}

func TestQueueRulesComeFromTheGeneration(t *testing.T) {
	w := newTestEnv(t)
	w.apply(1, "one", "A")
	rules := w.rules["p"]
	if rules.Hash != "one" {
		t.Errorf("hash %q", rules.Hash)
	}
	w.probes["A"].Statuses["PreEnqueue"] = probe.Reject("shut")
	if gate := rules.PreEnqueue(t.Context(), &v1.Pod{}, ""); gate != "A" {
		t.Errorf("gate %q, want A", gate)
	}
	if len(rules.Hints) != 1 || rules.Hints[0].Plugin != "A" {
		t.Errorf("hints %+v", rules.Hints)
	}
}

// The queue asks without its lock, and so may hold rules that were replaced.
func TestAClosedGenerationsPluginsAreNotCalled(t *testing.T) {
	w := newTestEnv(t)
	b := w.blueprint(1, "one", "A")
	w.probes["A"].Events[0].QueueingHintFn = func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
		w.journal.Add("A.Hint")
		return fwk.QueueSkip, nil
	}
	if err := w.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rules := w.rules["p"]
	w.Delete("p")
	w.journal.Take()
	rules.PreEnqueue(t.Context(), &v1.Pod{}, "")
	if answer, err := rules.Hints[0].Fn(klog.Background(), &v1.Pod{}, nil, nil); answer != fwk.Queue || err != nil {
		t.Errorf("hint %v, %v; want Queue, since nobody can say otherwise", answer, err)
	}
	w.wantJournal()
}

// Profiles share a heap where they sort alike: by the same plugin with the
// same arguments.
func TestArgumentsArePartOfTheSort(t *testing.T) {
	w := newTestEnv(t)
	sort := func(weight string) string {
		b := w.blueprint(1, "hash-"+weight, "A")
		b.Args = map[string]runtimeapi.Object{"A": &v1.ConfigMap{Data: map[string]string{"weight": weight}}}
		if err := w.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return w.rules["p"].Sort
	}
	one, two, again := sort("1"), sort("2"), sort("1")
	if one == two || one != again {
		t.Errorf("sorts %q, %q, %q: the same arguments are the same sort, others are not", one, two, again)
	}
}
