package profile

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/fixture"
)

// taking lets "p" run and take the pods of namespaces of team a alone; towns
// are the namespaces that there are.
func (w *testEnv) applyWithAllowedNamespaces(towns map[string]labels.Set) {
	w.t.Helper()
	w.options.Namespace = func(name string) (labels.Set, bool) { has, ok := towns[name]; return has, ok }
	b := w.blueprint(1, "one", "A")
	b.Namespaces = labels.SelectorFromSet(labels.Set{"team": "a"})
	if err := w.Apply(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
	w.journal.Take()
}

func TestPodsOfOtherNamespacesAreHeld(t *testing.T) {
	unlisted := make(chan struct{})
	for sentence, c := range map[string]struct {
		has    labels.Set // nil: there is no such namespace
		listed <-chan struct{}
		want   string
	}{
		"those of a namespace that is chosen":               {has: labels.Set{"team": "a"}},
		"not those of another one":                          {has: labels.Set{"team": "b"}, want: queue.NamespaceNotAllowed},
		"nor those of one without labels":                   {has: labels.Set{}, want: queue.NamespaceNotAllowed},
		"nor those of one that is not there":                {want: queue.NamespaceNotAllowed},
		"nobody is held before it is known which there are": {has: labels.Set{"team": "b"}, listed: unlisted},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			w.options.CachesSynced = c.listed
			towns := map[string]labels.Set{}
			if c.has != nil {
				towns["shop"] = c.has
			}
			w.applyWithAllowedNamespaces(towns)
			hold := w.rules["p"].Hold(fixture.Pod("shop/web").Obj())
			if hold.Reason != c.want {
				t.Errorf("hold %+v, want the reason %q", hold, c.want)
			}
			message := "SchedulingProfile p takes no pods of namespace shop: the pod waits until spec.allowedNamespaces matches the namespace's labels"
			if c.want != "" && hold.Message != message {
				t.Errorf("it says %q, want %q", hold.Message, message)
			}
		})
	}
}

func TestANamespaceChangeRechecksHeldPods(t *testing.T) {
	ours, theirs := labels.Set{"team": "a"}, labels.Set{"team": "b"}
	again := []string{"reconsider p shop"}
	for sentence, c := range map[string]struct {
		before, after labels.Set
		want          []string
	}{
		"it is chosen now":               {theirs, ours, again},
		"it is not chosen any more":      {ours, theirs, again},
		"it came":                        {nil, ours, again},
		"it is gone":                     {ours, nil, again},
		"it came, and is nothing to us":  {nil, theirs, nil},
		"another of its labels is other": {ours, labels.Set{"team": "a", "tier": "1"}, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			w.applyWithAllowedNamespaces(nil)
			w.NamespaceChanged("shop", c.before, c.after)
			if got := w.journal.Take(); !slices.Equal(got, c.want) {
				t.Errorf("what happened: %q, want %q", got, c.want)
			}
		})
	}
}

func TestHoldsAreRecheckedOnceNamespacesHaveSynced(t *testing.T) {
	w := newTestEnv(t)
	listed := make(chan struct{})
	w.options.CachesSynced = listed
	w.applyWithAllowedNamespaces(nil)
	w.NamespaceChanged("shop", nil, labels.Set{"team": "a"})
	if got := w.journal.Take(); len(got) > 0 {
		t.Errorf("what happened: %q", got)
	}
	close(listed)
	w.NamespacesSynced()
	if got := w.journal.Take(); !slices.Equal(got, []string{"reconsider p "}) {
		t.Errorf("what happened: %q, want all pods thought about once", got)
	}
}
