package profile

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/probe"
)

func TestAProfileRunsFromItsFirstApplyToItsDeletion(t *testing.T) {
	env := newTestEnv(t)
	env.wantRunning("", 0)
	if _, ok := env.Acquire("p"); ok {
		t.Error("acquired a profile that was not applied")
	}
	env.apply(1, "one", "A")
	env.wantRunning("one", 1)
	g, ok := env.Acquire("p")
	if !ok || g.Blueprint().Hash != "one" {
		t.Fatalf("acquired %v", g)
	}
	g.Release()
	if isClosed(g) {
		t.Error("closed while it serves the profile")
	}
	env.Delete("p")
	env.wantRunning("", 0)
	if !isClosed(g) {
		t.Error("not closed after the profile was deleted")
	}
	env.wantJournal("set p", "remove p: ProfileDeleted", "A.Close")
	env.Delete("p")
	env.wantJournal()
}

func TestAGenerationClosesWithItsLastBinding(t *testing.T) {
	env := newTestEnv(t)
	env.apply(1, "one", "A")
	first, _ := env.Acquire("p")
	second, _ := env.Acquire("p")
	env.apply(2, "two", "B")
	env.wantRunning("two", 2)
	env.wantJournal("set p", "set p")
	first.Release()
	if isClosed(first) {
		t.Fatal("closed while a binding is in progress")
	}
	env.wantJournal()
	second.Release()
	if !isClosed(first) {
		t.Error("not closed after its last binding")
	}
	env.wantJournal("A.Close")
	if current, ok := env.Acquire("p"); !ok || current == first {
		t.Error("acquired the closed generation")
	}
}

func TestTheOldGenerationClosesAfterTheQueueHasTheNewRules(t *testing.T) {
	env := newTestEnv(t)
	env.apply(1, "one", "A")
	old, _ := env.Acquire("p")
	old.Release()
	env.onSetProfile = func() {
		if isClosed(old) {
			t.Error("closed while the queue may still call its plugins")
		}
	}
	env.apply(2, "two", "B")
	if !isClosed(old) {
		t.Error("not closed after the swap")
	}
}

func TestTheSameHashKeepsRunning(t *testing.T) {
	env := newTestEnv(t)
	env.apply(1, "one", "A")
	since, _ := env.Running("p")
	g, _ := env.Acquire("p")
	defer g.Release()
	env.wantJournal("set p")
	env.apply(7, "one", "A")
	env.wantJournal()
	env.wantRunning("one", 7)
	if now, _ := env.Running("p"); now.Since != since.Since {
		t.Error("Since is the time of the second apply")
	}
	if g.Blueprint().Generation != 7 {
		t.Errorf("a binding in progress reports generation %d, want 7", g.Blueprint().Generation)
	}
}

func TestAFailedBuildKeepsTheRunningGeneration(t *testing.T) {
	for name, answers := range map[string]map[string]probe.StatusFunc{
		"a factory that fails":         {"New": probe.Fail(errors.New("no"))},
		"a factory that panics":        {"New": probe.Panic},
		"EventsToRegister that fails":  {"EventsToRegister": probe.Fail(errors.New("no"))},
		"EventsToRegister that panics": {"EventsToRegister": probe.Panic},
		"a Close that panics":          {"EventsToRegister": probe.Panic, "Close": probe.Panic},
		"a factory that calls Goexit":  {"New": probe.Goexit},
		"EventsToRegister that does":   {"EventsToRegister": probe.Goexit},
		"a Close that does":            {"EventsToRegister": probe.Goexit, "Close": probe.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			env.apply(1, "one", "A")
			b := env.blueprint(2, "two", "B")
			env.probes["B"].Statuses = answers
			env.journal.Take()
			err := env.Apply(t.Context(), b)
			var failed *BuildError
			if !errors.As(err, &failed) || failed.Plugin != "B" || !strings.Contains(err.Error(), "plugin B could not be built") {
				t.Errorf("%T %v, want a BuildError that names B", err, err)
			}
			env.wantRunning("one", 1)
			if lines := env.journal.Take(); len(lines) > 0 && lines[0] == "set p" {
				t.Error("the queue got rules of a swap that did not take place")
			}
			if g, ok := env.Acquire("p"); !ok {
				t.Error("the previous generation cannot be acquired")
			} else {
				g.Release()
			}
		})
	}
}

func TestQueueRulesComeFromTheGeneration(t *testing.T) {
	env := newTestEnv(t)
	env.apply(1, "one", "A")
	rules := env.rules["p"]
	if rules.Hash != "one" {
		t.Errorf("hash %q", rules.Hash)
	}
	env.probes["A"].Statuses["PreEnqueue"] = probe.Reject("shut")
	if gate := rules.PreEnqueue(t.Context(), &v1.Pod{}, ""); gate != "A" {
		t.Errorf("gate %q, want A", gate)
	}
	if len(rules.Hints) != 1 || rules.Hints[0].Plugin != "A" {
		t.Errorf("hints %+v", rules.Hints)
	}
}

// The queue calls rules without its lock, so it may call rules that were replaced.
func TestAClosedGenerationsPluginsAreNotCalled(t *testing.T) {
	env := newTestEnv(t)
	b := env.blueprint(1, "one", "A")
	env.probes["A"].Events[0].QueueingHintFn = func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
		env.journal.Add("A.Hint")
		return fwk.QueueSkip, nil
	}
	if err := env.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rules := env.rules["p"]
	env.Delete("p")
	env.journal.Take()
	rules.PreEnqueue(t.Context(), &v1.Pod{}, "")
	if answer, err := rules.Hints[0].Fn(klog.Background(), &v1.Pod{}, nil, nil); answer != fwk.Queue || err != nil {
		t.Errorf("hint %v, %v; want Queue, since the plugin is not called", answer, err)
	}
	env.wantJournal()
}

// Profiles share a heap if they sort by the same plugin with the same arguments.
func TestArgumentsArePartOfTheSort(t *testing.T) {
	env := newTestEnv(t)
	sort := func(weight string) string {
		b := env.blueprint(1, "hash-"+weight, "A")
		b.Args = map[string]runtimeapi.Object{"A": &v1.ConfigMap{Data: map[string]string{"weight": weight}}}
		if err := env.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return env.rules["p"].Sort
	}
	one, two, again := sort("1"), sort("2"), sort("1")
	if one == two || one != again {
		t.Errorf("sorts %q, %q, %q: the same arguments are the same sort, others are not", one, two, again)
	}
}
