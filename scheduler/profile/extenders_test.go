package profile

import (
	"context"
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/extender"
)

// recordingExtender is an extender that records when it is created and closed.
type recordingExtender struct {
	fwk.Extender
	env  *testEnv
	name string
}

func (a *recordingExtender) Name() string { return a.name }

func (a *recordingExtender) IsFilter() bool { return false }

func (a *recordingExtender) Close() error {
	a.env.journal.Add("%s is closed", a.name)
	return nil
}

// withExtenders enables extenders.
func (env *testEnv) withExtenders() *testEnv {
	env.options.NewExtender = func(_ context.Context, profile string, c extender.Config) (fwk.Extender, error) {
		env.journal.Add("%s is created for %s", c.Name, profile)
		return &recordingExtender{env: env, name: c.Name}, nil
	}
	return env
}

func TestATrialCallsNoExtender(t *testing.T) {
	env := newTestEnv(t).withPods("first").withExtenders()
	b := env.blueprint(1, "one", "A")
	b.Extenders = []extender.Config{{Name: "rack", Filter: "filter"}}
	if _, err := env.Try(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if lines := env.journal.Take(); slices.Contains(lines, "rack is created for p") {
		t.Errorf("during the trial: %q", lines)
	}
	if err := env.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if lines := env.journal.Take(); !slices.Contains(lines, "rack is created for p") {
		t.Errorf("when applied: %q", lines)
	}
}

func TestExtendersCloseWithTheirGeneration(t *testing.T) {
	env := newTestEnv(t).withExtenders()
	b := env.blueprint(1, "one", "A")
	b.Extenders = []extender.Config{{Name: "rack"}, {Name: "gpu"}}
	if err := env.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	env.journal.Take()
	held, _ := env.Acquire("p")
	env.apply(2, "two", "A")
	if lines := env.journal.Take(); slices.Contains(lines, "rack is closed") {
		t.Errorf("while a binding references it: %q", lines)
	}
	held.Release()
	if lines := env.journal.Take(); !slices.Contains(lines, "rack is closed") || !slices.Contains(lines, "gpu is closed") {
		t.Errorf("after the last reference: %q", lines)
	}
}
