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
func builtIn(t *testing.T, town *Town, last *framework.Trial, a *probe.Probe) Candidate {
	t.Helper()
	registry := probe.Registry(a)
	registration := registry[a.Called]
	registration.BuiltIn = true
	registry[a.Called] = registration
	f, err := framework.New(t.Context(), framework.Config{Profile: "p", Chains: probe.Chains([]*probe.Probe{a}), Trial: last}, registry, host(town))
	if err != nil {
		t.Fatal(err)
	}
	return Candidate{Framework: f}
}

// anywhere are objects of a cluster that is never twice the same: each name may
// be missing, and what has it may be old or new.
func anywhere(random *rand.Rand, versions map[string]metav1.Object) (objects []metav1.Object, promised *v1.Pod) {
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
			pod := ours(name)
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

func TestATownThatIsKeptIsLikeANewOne(t *testing.T) {
	random, versions, towns := rand.New(rand.NewPCG(7, 7)), map[string]metav1.Object{}, NewTowns(clock.RealClock{})
	for round := range 200 {
		objects, promised := anywhere(random, versions)
		s := source(objects...)
		if promised != nil {
			s.promise(t, promised, fmt.Sprint("n", random.IntN(4)))
		}
		want := slices.Sorted(slices.Values(content(s.take(t).Town())))
		s.Towns = towns
		scene, idle, last := s.take(t), towns.idle, &framework.Trial{}
		town := scene.Town()
		if idle != nil && town != idle {
			t.Fatalf("round %d: the cluster was copied anew", round)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(content(town)))); diff != "" {
			t.Fatalf("round %d: a kept town (-new +kept):\n%s", round, diff)
		}
		a := aProbe("A")
		if random.IntN(2) == 0 {
			a.On["Filter"] = probe.Reject("full")
		}
		if _, err := town.Ask(t.Context(), real, builtIn(t, town, last, a), last, scene.Pods()); err != nil {
			t.Fatal(err)
		}
		town.GiveBack()
	}
}

func TestWhichTownsAreKept(t *testing.T) {
	type visit func(t *testing.T, town *Town, scene *Scene)
	ask := func(c func(*testing.T, *Town, *framework.Trial) Candidate) visit {
		return func(t *testing.T, town *Town, scene *Scene) {
			last := &framework.Trial{}
			_, _ = town.Ask(t.Context(), real, c(t, town, last), last, scene.Pods())
		}
	}
	well := ask(func(t *testing.T, town *Town, last *framework.Trial) Candidate {
		return builtIn(t, town, last, aProbe("A"))
	})
	foreign := ask(func(t *testing.T, town *Town, last *framework.Trial) Candidate {
		return candidate(t, town, last, aProbe("A"))
	})
	late := ask(func(t *testing.T, town *Town, last *framework.Trial) Candidate {
		a := aProbe("A")
		a.On["Filter"] = func() *fwk.Status { time.Sleep(time.Hour); return nil }
		return builtIn(t, town, last, a)
	})
	lends := func(_ *testing.T, town *Town, _ *Scene) { town.Lister() }
	waits := func(*testing.T, *Town, *Scene) {}
	for sentence, c := range map[string]struct {
		visits []visit
		then   time.Duration
		kept   bool
	}{
		"one that was asked, also twice":                 {[]visit{well, well}, 0, true},
		"one that nobody asked":                          {[]visit{waits}, 0, true},
		"not one for longer than it may be of use":       {[]visit{well}, keepIdle, false},
		"not one that a plugin has that hangs":           {[]visit{well, late}, 0, false},
		"not one with plugins that were not asked":       {[]visit{well, lends}, 0, false},
		"not one that plugins know that are not ours":    {[]visit{foreign}, 0, false},
		"nor where ours were asked after plugins of all": {[]visit{foreign, well}, 0, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := source(fixture.Node("a").Obj(), ours("web").Obj())
				s.Towns = NewTowns(clock.RealClock{})
				scene := s.take(t)
				town := scene.Town()
				for _, visit := range c.visits {
					visit(t, town, scene)
				}
				town.GiveBack()
				time.Sleep(c.then)
				synctest.Wait()
				if again := s.take(t).Town(); (again == town) != c.kept {
					t.Errorf("the next trial has the same town: %v, want %v", again == town, c.kept)
				}
				time.Sleep(2 * time.Hour) // until nobody hangs any more
			})
		})
	}
}

func TestTwoTrialsAtATimeHaveATownEach(t *testing.T) {
	s := source(fixture.Node("a").Obj())
	s.Towns = NewTowns(clock.RealClock{})
	one, other := s.take(t).Town(), s.take(t).Town()
	if one == other {
		t.Fatal("they share a town")
	}
	one.GiveBack()
	other.GiveBack()
	if again := s.take(t).Town(); again != one {
		t.Error("neither was kept")
	}
	if got := strings.Join(content(s.take(t).Town()), ""); got != "a:[]" {
		t.Errorf("a third town holds %s", got)
	}
}
