package profile

import (
	"context"
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/extender"
)

// asked is an extender that notes when it is made and when it is closed.
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

// extending lets extenders be made.
func (w *testEnv) withExtenders() *testEnv {
	w.options.NewExtender = func(_ context.Context, profile string, c extender.Config) (fwk.Extender, error) {
		w.journal.Add("%s is made for %s", c.Name, profile)
		return &recordingExtender{env: w, name: c.Name}, nil
	}
	return w
}

func TestATrialCallsNoExtender(t *testing.T) {
	w := newTestEnv(t).withPods("first").withExtenders()
	b := w.blueprint(1, "one", "A")
	b.Extenders = []extender.Config{{Name: "rack", Filter: "filter"}}
	if _, err := w.Try(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if lines := w.journal.Take(); slices.Contains(lines, "rack is made for p") {
		t.Errorf("on trial: %q", lines)
	}
	if err := w.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if lines := w.journal.Take(); !slices.Contains(lines, "rack is made for p") {
		t.Errorf("where it counts: %q", lines)
	}
}

func TestExtendersCloseWithTheirGeneration(t *testing.T) {
	w := newTestEnv(t).withExtenders()
	b := w.blueprint(1, "one", "A")
	b.Extenders = []extender.Config{{Name: "rack"}, {Name: "gpu"}}
	if err := w.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.journal.Take()
	held, _ := w.Acquire("p")
	w.apply(2, "two", "A")
	if lines := w.journal.Take(); slices.Contains(lines, "rack is closed") {
		t.Errorf("while a binding holds it: %q", lines)
	}
	held.Release()
	if lines := w.journal.Take(); !slices.Contains(lines, "rack is closed") || !slices.Contains(lines, "gpu is closed") {
		t.Errorf("when nobody holds it any more: %q", lines)
	}
}
