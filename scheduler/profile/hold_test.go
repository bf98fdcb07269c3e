package profile

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

func TestAPausedProfileCannotBeAcquired(t *testing.T) {
	env := newTestEnv(t)
	env.SetPaused("p", true)
	env.apply(1, "one", "A")
	if _, ok := env.Acquire("p"); ok {
		t.Error("acquired although it was paused before it was applied")
	}
	if hold := env.rules["p"].Hold(&v1.Pod{}); hold.Reason != queue.ProfilePaused || !strings.Contains(hold.Message, "SchedulingProfile p is paused") {
		t.Errorf("hold %+v", hold)
	}
	env.SetPaused("p", true)
	env.wantJournal("set p")
	env.SetPaused("p", false)
	env.wantJournal("set p")
	if hold := env.rules["p"].Hold(&v1.Pod{}); hold.Reason != "" {
		t.Errorf("hold %+v after the pause", hold)
	}
	g, ok := env.Acquire("p")
	if !ok {
		t.Fatal("not acquired after the pause")
	}
	g.Release()
	env.SetPaused("p", true)
	env.Delete("p")
	env.apply(1, "one", "A")
	if _, ok := env.Acquire("p"); !ok {
		t.Error("a profile that was created again is still paused")
	}
}

func TestAPodWithAnUnsupportedFieldIsHeld(t *testing.T) {
	env := newTestEnv(t)
	env.apply(1, "one", "A")
	env.unsupported = "spec.resourceClaims"
	want := queue.Hold{Reason: queue.Unsupported, Message: "spec.resourceClaims: not yet"}
	if hold := env.rules["p"].Hold(&v1.Pod{}); hold != want {
		t.Errorf("hold %+v, want %+v", hold, want)
	}
}

func TestACreationDuringADeletionComesAfterIt(t *testing.T) {
	env := newTestEnv(t)
	waiting := &servedProfiles{names: map[string]bool{}}
	env.Set.options.Queue = waiting
	env.apply(1, "one", "A")
	b := env.blueprint(2, "two", "B")
	var creation sync.WaitGroup
	waiting.onRemoveProfile = func() {
		creation.Go(func() {
			if err := env.Apply(t.Context(), b); err != nil {
				t.Error(err)
			}
		})
		for range 10000 {
			runtime.Gosched() // so that the creation proceeds, if nothing blocks it
		}
	}
	env.Delete("p")
	creation.Wait()
	env.wantRunning("two", 2)
	if !waiting.names["p"] {
		t.Error("the profile runs but the queue does not serve it")
	}
}

// Metric series of a profile begin with its first build, even if that fails.
func TestANameIsForgottenWhenNothingIsLeftOfIt(t *testing.T) {
	for name, do := range map[string]func(env *testEnv) (want []string){
		"it ran": func(env *testEnv) []string {
			env.apply(1, "one", "A")
			env.Delete("p")
			return []string{"p"}
		},
		"it runs": func(env *testEnv) []string {
			env.apply(1, "one", "A")
			env.apply(2, "two", "B")
			return nil
		},
		"it could never be built": func(env *testEnv) []string {
			b := env.blueprint(1, "one", "A")
			env.probes["A"].Statuses["New"] = probe.Fail(errors.New("no"))
			if err := env.Apply(env.t.Context(), b); err == nil {
				env.t.Fatal("built")
			}
			env.Delete("p")
			return []string{"p"}
		},
		"its last binding is in progress": func(env *testEnv) []string {
			env.apply(1, "one", "A")
			g, _ := env.Acquire("p")
			env.Delete("p")
			env.Delete("p")
			env.t.Cleanup(g.Release)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			var forgotten []string
			env.options.Forget = func(name string) {
				forgotten = append(forgotten, name)
				if env.mu.TryLock() {
					env.mu.Unlock()
					t.Error("a profile of that name may begin meanwhile")
				}
			}
			want := do(env)
			if !slices.Equal(forgotten, want) {
				t.Errorf("forgotten: %q, want %q", forgotten, want)
			}
		})
	}
}

func TestPodsOfAProfileThatDoesNotRunAreHeldUntilItDoes(t *testing.T) {
	env := newTestEnv(t)
	env.Hold("p", "it does not run")
	env.Hold("p", "it does not run")
	env.Hold("p", "it does not run yet")
	env.wantJournal("hold p: ProfileNotRunning: it does not run", "hold p: ProfileNotRunning: it does not run yet")
	env.Delete("p")
	env.wantJournal("remove p: ProfileDeleted")
	env.Delete("p")
	env.wantJournal()
	env.Hold("p", "it does not run")
	env.apply(1, "a", "A")
	env.Hold("p", "it does not run")
	env.wantJournal("hold p: ProfileNotRunning: it does not run", "set p")
}

func TestPodsThatAreHeldAreLeftToAnotherScheduler(t *testing.T) {
	env := newTestEnv(t)
	env.Release("p")
	env.wantJournal()
	env.Hold("p", "it does not run")
	env.Release("p")
	env.Release("p")
	env.wantJournal("hold p: ProfileNotRunning: it does not run", "release p")
	env.Delete("p")
	env.wantJournal()
	env.Hold("p", "it does not run")
	env.wantJournal("hold p: ProfileNotRunning: it does not run")
	env.apply(1, "a", "A")
	env.Release("p")
	env.wantJournal("set p")
}

// namespaceLister lists namespaces by name, with these labels.
type namespaceLister struct {
	corelisters.NamespaceLister
	labels map[string]labels.Set
}

func (l namespaceLister) Get(name string) (*v1.Namespace, error) {
	set, exists := l.labels[name]
	if !exists {
		return nil, apierrors.NewNotFound(v1.Resource("namespaces"), name)
	}
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set}}, nil
}

// applyWithAllowedNamespaces runs "p" for the namespaces of team a only. namespaces are the
// labels of the existing namespaces.
func (env *testEnv) applyWithAllowedNamespaces(namespaces map[string]labels.Set) {
	env.t.Helper()
	env.options.Namespaces = namespaceLister{labels: namespaces}
	b := env.blueprint(1, "one", "A")
	b.Namespaces = labels.SelectorFromSet(labels.Set{"team": "a"})
	if err := env.Apply(env.t.Context(), b); err != nil {
		env.t.Fatal(err)
	}
	env.journal.Take()
}

func TestPodsOfOtherNamespacesAreHeld(t *testing.T) {
	unlisted := make(chan struct{})
	for name, c := range map[string]struct {
		has    labels.Set // nil: the namespace does not exist
		listed <-chan struct{}
		want   string
	}{
		"a namespace that is allowed":     {has: labels.Set{"team": "a"}},
		"a namespace with other labels":   {has: labels.Set{"team": "b"}, want: queue.NamespaceNotAllowed},
		"a namespace without labels":      {has: labels.Set{}, want: queue.NamespaceNotAllowed},
		"a namespace that does not exist": {want: queue.NamespaceNotAllowed},
		"before the caches have synced":   {has: labels.Set{"team": "b"}, listed: unlisted},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			env.options.CachesSynced = c.listed
			namespaces := map[string]labels.Set{}
			if c.has != nil {
				namespaces["shop"] = c.has
			}
			env.applyWithAllowedNamespaces(namespaces)
			hold := env.rules["p"].Hold(fixture.Pod("shop/web").Obj())
			if hold.Reason != c.want {
				t.Errorf("hold %+v, want the reason %q", hold, c.want)
			}
			message := "SchedulingProfile p takes no pods of namespace shop: the pod waits until spec.allowedNamespaces matches the namespace's labels"
			if c.want != "" && hold.Message != message {
				t.Errorf("message %q, want %q", hold.Message, message)
			}
		})
	}
}

func TestANamespaceChangeRechecksHeldPods(t *testing.T) {
	ours, theirs := labels.Set{"team": "a"}, labels.Set{"team": "b"}
	again := []string{"recheck holds p shop"}
	for name, c := range map[string]struct {
		before, after labels.Set
		want          []string
	}{
		"it becomes allowed":            {theirs, ours, again},
		"it is no longer allowed":       {ours, theirs, again},
		"it is created":                 {nil, ours, again},
		"it is deleted":                 {ours, nil, again},
		"it is created and not allowed": {nil, theirs, nil},
		"another label changes":         {ours, labels.Set{"team": "a", "tier": "1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			env.applyWithAllowedNamespaces(nil)
			env.NamespaceChanged("shop", c.before, c.after)
			if got := env.journal.Take(); !slices.Equal(got, c.want) {
				t.Errorf("calls: %q, want %q", got, c.want)
			}
		})
	}
}

func TestHoldsAreRecheckedOnceNamespacesHaveSynced(t *testing.T) {
	env := newTestEnv(t)
	listed := make(chan struct{})
	env.options.CachesSynced = listed
	env.applyWithAllowedNamespaces(nil)
	env.NamespaceChanged("shop", nil, labels.Set{"team": "a"})
	if got := env.journal.Take(); len(got) > 0 {
		t.Errorf("calls: %q", got)
	}
	close(listed)
	env.NamespacesSynced()
	if got := env.journal.Take(); !slices.Equal(got, []string{"recheck holds p "}) {
		t.Errorf("calls: %q, want one recheck of all namespaces", got)
	}
}
