package trial

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// builtIn is candidate with a plugin that is the house's own.
func newInTreeCandidate(t *testing.T, town *Sandbox, last *framework.Trial, a *probe.Plugin) Candidate {
	t.Helper()
	registry := probe.Registry(a)
	registration := registry[a.PluginName]
	registration.InTree = true
	registry[a.PluginName] = registration
	f, err := framework.New(t.Context(), framework.Config{Profile: "p", Chains: probe.Chains([]*probe.Plugin{a}), Trial: last}, registry, newHost(town))
	if err != nil {
		t.Fatal(err)
	}
	return Candidate{Framework: f}
}

// anywhere are objects of a cluster that is never twice the same: each name may
// be missing, and what has it may be old or new.
func randomCluster(random *rand.Rand, versions map[string]metav1.Object) (objects []metav1.Object, promised *v1.Pod) {
	object := func(name string, make func() metav1.Object) {
		switch random.IntN(4) {
		case 0:
			return
		case 1:
			versions[name] = make()
		}
		if versions[name] == nil {
			versions[name] = make()
		}
		objects = append(objects, versions[name])
	}
	for i := range 4 {
		object(fmt.Sprint("n", i), func() metav1.Object { return fixture.Node(fmt.Sprint("n", i)).Obj() })
	}
	for i := range 12 {
		name := fmt.Sprint("p", i)
		object(name, func() metav1.Object {
			pod := podOfProfile(name)
			if at := random.IntN(5); at < 4 {
				pod.On(fmt.Sprint("n", at))
			} else if random.IntN(2) == 0 {
				promised = pod.Obj()
			}
			return pod.Obj()
		})
	}
	return objects, promised
}

func TestAReusedSandboxIsLikeANewOne(t *testing.T) {
	random, versions, towns := rand.New(rand.NewPCG(7, 7)), map[string]metav1.Object{}, NewPool(clock.RealClock{})
	for round := range 200 {
		objects, promised := randomCluster(random, versions)
		s := newSource(objects...)
		if promised != nil {
			s.nominate(t, promised, fmt.Sprint("n", random.IntN(4)))
		}
		want := slices.Sorted(slices.Values(contents(s.mustRead(t).NewSandbox())))
		s.Pool = towns
		scene, idle, last := s.mustRead(t), towns.idle, &framework.Trial{}
		town := scene.NewSandbox()
		if idle != nil && town != idle {
			t.Fatalf("round %d: the cluster was copied anew", round)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(contents(town)))); diff != "" {
			t.Fatalf("round %d: a kept town (-new +kept):\n%s", round, diff)
		}
		a := newProbe("A")
		if random.IntN(2) == 0 {
			a.Statuses["Filter"] = probe.Reject("full")
		}
		if _, err := town.Evaluate(t.Context(), realRuntime, newInTreeCandidate(t, town, last, a), last, scene.Pods()); err != nil {
			t.Fatal(err)
		}
		town.Release()
	}
}

func TestWhichSandboxesAreReused(t *testing.T) {
	type visit func(t *testing.T, town *Sandbox, scene *ClusterState)
	ask := func(c func(*testing.T, *Sandbox, *framework.Trial) Candidate) visit {
		return func(t *testing.T, town *Sandbox, scene *ClusterState) {
			last := &framework.Trial{}
			_, _ = town.Evaluate(t.Context(), realRuntime, c(t, town, last), last, scene.Pods())
		}
	}
	well := ask(func(t *testing.T, town *Sandbox, last *framework.Trial) Candidate {
		return newInTreeCandidate(t, town, last, newProbe("A"))
	})
	foreign := ask(func(t *testing.T, town *Sandbox, last *framework.Trial) Candidate {
		return newCandidate(t, town, last, newProbe("A"))
	})
	late := ask(func(t *testing.T, town *Sandbox, last *framework.Trial) Candidate {
		a := newProbe("A")
		a.Statuses["Filter"] = func() *fwk.Status { time.Sleep(time.Hour); return nil }
		return newInTreeCandidate(t, town, last, a)
	})
	lends := func(_ *testing.T, town *Sandbox, _ *ClusterState) { town.Lister() }
	waits := func(*testing.T, *Sandbox, *ClusterState) {}
	for sentence, c := range map[string]struct {
		visits []visit
		then   time.Duration
		kept   bool
	}{
		"one that was asked, also twice":                 {[]visit{well, well}, 0, true},
		"one that nobody asked":                          {[]visit{waits}, 0, true},
		"not one for longer than it may be of use":       {[]visit{well}, idleTimeout, false},
		"not one that a plugin has that hangs":           {[]visit{well, late}, 0, false},
		"not one with plugins that were not asked":       {[]visit{well, lends}, 0, false},
		"not one that plugins know that are not ours":    {[]visit{foreign}, 0, false},
		"nor where ours were asked after plugins of all": {[]visit{foreign, well}, 0, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj())
				s.Pool = NewPool(clock.RealClock{})
				scene := s.mustRead(t)
				town := scene.NewSandbox()
				for _, visit := range c.visits {
					visit(t, town, scene)
				}
				town.Release()
				time.Sleep(c.then)
				synctest.Wait()
				if again := s.mustRead(t).NewSandbox(); (again == town) != c.kept {
					t.Errorf("the next trial has the same town: %v, want %v", again == town, c.kept)
				}
				time.Sleep(2 * time.Hour) // until nobody hangs any more
			})
		})
	}
}

func TestConcurrentTrialsHaveASandboxEach(t *testing.T) {
	s := newSource(fixture.Node("a").Obj())
	s.Pool = NewPool(clock.RealClock{})
	one, other := s.mustRead(t).NewSandbox(), s.mustRead(t).NewSandbox()
	if one == other {
		t.Fatal("they share a town")
	}
	one.Release()
	other.Release()
	if again := s.mustRead(t).NewSandbox(); again != one {
		t.Error("neither was kept")
	}
	if got := strings.Join(contents(s.mustRead(t).NewSandbox()), ""); got != "a:[]" {
		t.Errorf("a third town holds %s", got)
	}
}
