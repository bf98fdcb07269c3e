package profile

import (
	"context"
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/extender"
)

// asked is an extender that notes when it is made and when it is closed.
type asked struct {
	fwk.Extender
	w    *world
	name string
}

func (a *asked) Name() string { return a.name }

func (a *asked) IsFilter() bool { return false }

func (a *asked) Close() error {
	a.w.journal.Note("%s is closed", a.name)
	return nil
}

// extending lets extenders be made.
func (w *world) extending() *world {
	w.options.Extender = func(_ context.Context, profile string, c extender.Config) (fwk.Extender, error) {
		w.journal.Note("%s is made for %s", c.Name, profile)
		return &asked{w: w, name: c.Name}, nil
	}
	return w
}

func TestATrialAsksNoExtender(t *testing.T) {
	w := newWorld(t).withPods("first").extending()
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

func TestExtendersEndWithTheirGeneration(t *testing.T) {
	w := newWorld(t).extending()
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
