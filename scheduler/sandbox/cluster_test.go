package sandbox

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

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// newInTreeCandidate is newCandidate with a built-in plugin.
func newInTreeCandidate(t *testing.T, cluster *Cluster, a *probe.Plugin) Candidate {
	t.Helper()
	registry := probe.Registry(a)
	registration := registry[a.PluginName]
	registration.InTree = true
	registry[a.PluginName] = registration
	return buildCandidate(t, cluster, registry, probe.Chains([]*probe.Plugin{a}))
}

// randomCluster returns the objects of a random cluster: each name may be missing, and
// its object may be the one of an earlier call or a new one.
func randomCluster(random *rand.Rand, versions map[string]metav1.Object) (objects []metav1.Object, nominated *v1.Pod) {
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
				nominated = pod.Obj()
			}
			return pod.Obj()
		})
	}
	return objects, nominated
}

func TestAReusedSandboxIsLikeANewOne(t *testing.T) {
	random, versions, pool := rand.New(rand.NewPCG(7, 7)), map[string]metav1.Object{}, NewPool(clock.RealClock{})
	for round := range 200 {
		objects, nominated := randomCluster(random, versions)
		s := newSource(objects...)
		if nominated != nil {
			s.nominate(t, nominated, fmt.Sprint("n", random.IntN(4)))
		}
		want := slices.Sorted(slices.Values(contents(s.mustRead(t).NewCluster())))
		s.Pool = pool
		state, idle := s.mustRead(t), pool.idle
		cluster := state.NewCluster()
		if idle != nil && cluster != idle {
			t.Fatalf("round %d: the cluster was copied again", round)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(contents(cluster)))); diff != "" {
			t.Fatalf("round %d: a reused copy (-new +reused):\n%s", round, diff)
		}
		a := newProbe("A")
		if random.IntN(2) == 0 {
			a.Statuses["Filter"] = probe.Reject("full")
		}
		if _, err := cluster.Evaluate(t.Context(), newInTreeCandidate(t, cluster, a), state.Pods()); err != nil {
			t.Fatal(err)
		}
		cluster.Release()
	}
}

func TestWhichSandboxesAreReused(t *testing.T) {
	type use func(t *testing.T, cluster *Cluster, state *ClusterState)
	ask := func(c func(*testing.T, *Cluster) Candidate) use {
		return func(t *testing.T, cluster *Cluster, state *ClusterState) {
			_, _ = cluster.Evaluate(t.Context(), c(t, cluster), state.Pods())
		}
	}
	well := ask(func(t *testing.T, cluster *Cluster) Candidate {
		return newInTreeCandidate(t, cluster, newProbe("A"))
	})
	foreign := ask(func(t *testing.T, cluster *Cluster) Candidate {
		return newCandidate(t, cluster, newProbe("A"))
	})
	late := ask(func(t *testing.T, cluster *Cluster) Candidate {
		a := newProbe("A")
		a.Statuses["Filter"] = func() *fwk.Status { time.Sleep(time.Hour); return nil }
		return newInTreeCandidate(t, cluster, a)
	})
	lends := func(_ *testing.T, cluster *Cluster, _ *ClusterState) { cluster.Host() }
	waits := func(*testing.T, *Cluster, *ClusterState) {}
	for name, c := range map[string]struct {
		uses   []use
		then   time.Duration
		reused bool
	}{
		"a sandbox that was used, also twice":            {[]use{well, well}, 0, true},
		"a sandbox that was not used":                    {[]use{waits}, 0, true},
		"no sandbox after the idle timeout":              {[]use{well}, idleTimeout, false},
		"no sandbox that a hanging plugin holds":         {[]use{well, late}, 0, false},
		"no sandbox whose plugins were not evaluated":    {[]use{well, lends}, 0, false},
		"no sandbox that out-of-tree plugins were given": {[]use{foreign}, 0, false},
		"also not if built-in plugins used it later":     {[]use{foreign, well}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(fixture.Node("a").Obj(), podOfProfile("web").Obj())
				s.Pool = NewPool(clock.RealClock{})
				state := s.mustRead(t)
				cluster := state.NewCluster()
				for _, use := range c.uses {
					use(t, cluster, state)
				}
				cluster.Release()
				time.Sleep(c.then)
				synctest.Wait()
				if again := s.mustRead(t).NewCluster(); (again == cluster) != c.reused {
					t.Errorf("the next trial has the same copy: %v, want %v", again == cluster, c.reused)
				}
				time.Sleep(2 * time.Hour) // until the plugin returns
			})
		})
	}
}

func TestConcurrentTrialsHaveASandboxEach(t *testing.T) {
	s := newSource(fixture.Node("a").Obj())
	s.Pool = NewPool(clock.RealClock{})
	one, other := s.mustRead(t).NewCluster(), s.mustRead(t).NewCluster()
	if one == other {
		t.Fatal("they share a copy")
	}
	one.Release()
	other.Release()
	if again := s.mustRead(t).NewCluster(); again != one {
		t.Error("neither was reused")
	}
	if got := strings.Join(contents(s.mustRead(t).NewCluster()), ""); got != "a:[]" {
		t.Errorf("a third copy holds %s", got)
	}
}
