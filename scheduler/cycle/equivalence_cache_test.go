package cycle_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/podclass"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// testEnv is several profiles on one cluster whose caches share a Budget.
type testEnv struct {
	*testing.T
	cache     *cache.Cache
	informers informers.SharedInformerFactory
	budget    *cycle.Budget
	limit     int
	profiles  []*framework.Framework
	caches    []*cycle.EquivalenceCache
	cycle     cycle.Cycle
}

func newTestEnv(t *testing.T, limit, profiles int, also ...string) *testEnv {
	s := &testEnv{T: t, cache: cache.New(), budget: cycle.NewBudget(limit), limit: limit, informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	for i := range 20 {
		s.cache.SetNode(fixture.Node(fmt.Sprint("n", i)).Label("zone", fmt.Sprint(i%3)).
			Capacity("cpu", fmt.Sprint(1+i%7)).Capacity("memory", "8Gi").Capacity("pods", "110").Obj())
	}
	registry, args := plugins.InTree(), map[string]runtime.Object{}
	chains := framework.Chains{framework.QueueSort: {{Name: "PrioritySort"}}}
	for _, name := range append([]string{"NodeResourcesFit"}, also...) {
		if r := registry[name]; r.NewArgs != nil {
			args[name] = r.NewArgs()
			if r.Default != nil {
				r.Default(args[name])
			}
		}
		for _, point := range []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score} {
			if !slices.Contains(registry[name].Points, point) {
				continue
			}
			chains[point] = append(chains[point], framework.Entry{Name: name, Weight: 1})
		}
	}
	for i := range profiles {
		f, err := framework.New(t.Context(), framework.Config{Profile: fmt.Sprint("profile-", i), Args: args, Chains: chains}, registry, framework.Host{
			Lister: s.cache.Snapshot(), Nominator: s.cache.Nominator, Clock: clock.RealClock{}, Informers: s.informers,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.profiles, s.caches = append(s.profiles, f), append(s.caches, s.budget.NewEquivalenceCache(f))
	}
	return s
}

// podOfClass returns a pod of the i-th class.
func podOfClass(i int) *v1.Pod {
	return fixture.Pod(fmt.Sprint("p", i)).Requests("cpu", fmt.Sprint(1+i, "m")).Obj()
}

// run runs one attempt by the cache and one by the reference, and compares the
// results.
func (s *testEnv) run(profile int, pod *v1.Pod) {
	s.Helper()
	r := cycle.Request{Framework: s.profiles[profile], Pod: pod, Snapshot: s.cache.UpdateSnapshot(), State: framework.NewCycleState()}
	start := s.cycle
	want, wantErr := s.cycle.Run(s.Context(), r)
	s.cycle, r.State, r.EquivalenceCache = start, framework.NewCycleState(), s.caches[profile]
	got, err := s.cycle.Run(s.Context(), r)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		s.Fatalf("pod %s: %v by the cache, want %v", pod.Name, err, wantErr)
	}
	if err == nil && got.Node != want.Node {
		s.Fatalf("pod %s goes to %s by the cache, want %s", pod.Name, got.Node, want.Node)
	}
	s.check()
}

// check compares the bytes of the Budget with those of the caches.
func (s *testEnv) check() {
	s.Helper()
	sum := 0
	for _, equivalenceCache := range s.caches {
		_, bytes, _ := equivalenceCache.Size()
		sum += bytes
	}
	if s.budget.Bytes() > s.limit || s.budget.Bytes() != sum {
		s.Fatalf("%d bytes are counted, the caches use %d; want the same, and at most %d", s.budget.Bytes(), sum, s.limit)
	}
}

func TestProfilesStayWithinOneBudget(t *testing.T) {
	s := newTestEnv(t, 1<<20, 7)
	for range 3 {
		for i := range 100 {
			for profile := range s.profiles {
				s.run(profile, podOfClass(i))
			}
		}
	}
	if used := s.budget.Bytes(); used < s.limit/2 {
		t.Errorf("%d of %d bytes are used by more classes than fit, want more", used, s.limit)
	}
}

func TestABusierProfileKeepsMoreClasses(t *testing.T) {
	s := newTestEnv(t, 1<<20, 2)
	for i := range 2000 {
		s.run(0, podOfClass(i%150))
		if i%10 == 0 {
			s.run(1, podOfClass(i))
		}
	}
	busy, _, _ := s.caches[0].Size()
	idle, _, _ := s.caches[1].Size()
	if busy != 150 || idle >= busy {
		t.Errorf("the busy profile keeps %d classes and the other %d; want all 150, and fewer", busy, idle)
	}
}

func TestAnEvictedClassIsNotUsedAgain(t *testing.T) {
	s := newTestEnv(t, 1<<20, 2)
	pod := podOfClass(0)
	s.run(0, pod)
	for i := range 1000 {
		s.run(1, podOfClass(1+i))
	}
	if classes, _, _ := s.caches[0].Size(); classes != 0 {
		t.Fatalf("%d classes are left, want none", classes)
	}
	s.run(0, pod)
	if classes, _, _ := s.caches[0].Size(); classes != 1 {
		t.Errorf("the pod is one of %d classes, want 1", classes)
	}
}

func TestAClosedCacheReleasesItsBytes(t *testing.T) {
	s := newTestEnv(t, 1<<20, 2)
	for i := range 50 {
		s.run(0, podOfClass(i))
	}
	s.caches[0].Close()
	s.run(1, podOfClass(0))
	classes, bytes, _ := s.caches[0].Size()
	if others, _, _ := s.caches[1].Size(); classes != 0 || bytes != 0 || others != 1 {
		t.Errorf("the closed cache keeps %d classes of %d bytes, the other one %d; want 0, 0 and 1", classes, bytes, others)
	}
}

// labelSelectingPlugin is a plugin with its own label selector.
type labelSelectingPlugin struct{ *probe.Plugin }

func (labelSelectingPlugin) SelectedLabels(keys *podclass.LabelKeys) { keys.Insert("tier") }

// A cache is built while the scheduling loop uses the snapshot.
func TestNewEquivalenceCacheDoesNotChangeTheSnapshotsLabels(t *testing.T) {
	clusterCache := cache.New()
	host := framework.Host{Clock: clock.RealClock{}, Lister: clusterCache.Snapshot(), Nominator: clusterCache.Nominator}
	p := labelSelectingPlugin{&probe.Plugin{PluginName: "A", Log: &probe.CallLog{}}}
	registry := framework.Registry{"A": framework.Registration{
		Name: "A", Points: framework.Points,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil },
	}}
	f, err := framework.New(t.Context(), framework.Config{Profile: "p", Chains: probe.Chains([]*probe.Plugin{p.Plugin})}, registry, host)
	if err != nil {
		t.Fatal(err)
	}
	equivalenceCache := cycle.NewEquivalenceCache(f)
	if found := clusterCache.Snapshot().SelectorLabelKeys().List(); len(found) != 0 {
		t.Errorf("after NewEquivalenceCache the snapshot has the label keys %q", found)
	}
	if _, err := equivalenceCache.PodInfo(fixture.Pod("a").Obj()); err != nil {
		t.Fatal(err)
	}
	if found := clusterCache.Snapshot().SelectorLabelKeys().List(); !slices.Equal(found, []string{"tier"}) {
		t.Errorf("after the first lookup the snapshot has the label keys %q", found)
	}
}

// service adds a Service with a selector of one label.
func (s *testEnv) service(name, key, value string) {
	s.Helper()
	if err := s.informers.Core().V1().Services().Informer().GetIndexer().Add(fixture.Service(name, key, value)); err != nil {
		s.Fatal(err)
	}
	s.cache.MarkChanged(framework.PodOwners)
}

// replicaSet adds a ReplicaSet with a selector of one label.
func (s *testEnv) replicaSet(name, key, value string) {
	s.Helper()
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       appsv1.ReplicaSetSpec{Selector: fixture.LabelSelector(key, value)},
	}
	if err := s.informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(set); err != nil {
		s.Fatal(err)
	}
	s.cache.MarkChanged(framework.PodOwners)
}

// In its second attempt a pod may belong to another class than in its first,
// because selectors name more labels.
func TestThePodOfTheLastAttemptIsClassifiedAgain(t *testing.T) {
	for name, change := range map[string]func(s *testEnv){
		"a pod is assigned whose required anti-affinity names a label that no selector named": func(s *testEnv) {
			for i := range 20 {
				s.cache.SetPod(fixture.Pod(fmt.Sprint("guard", i)).RequirePodAntiAffinity(fixture.PodAffinityTerm("zone", "app", "db")).On(fmt.Sprint("n", i)).Obj())
			}
		},
		"a pod is assigned whose preferred anti-affinity names such a label": func(s *testEnv) {
			s.cache.SetPod(fixture.Pod("guard").PreferPodAntiAffinity(100, fixture.PodAffinityTerm("zone", "app", "db")).On("n6").Obj())
		},
		"a Service is created whose selector names such a label": func(s *testEnv) {
			s.cache.SetPod(fixture.Pod("other").Label("app", "db").On("n6").Obj())
			s.service("db", "app", "db")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t, 1<<20, 1, "InterPodAffinity", "PodTopologySpread")
			web := fixture.Pod("web").Label("app", "web").Requests("cpu", "500m").Obj()
			db := fixture.Pod("db").Label("app", "db").Requests("cpu", "500m").Obj()
			s.run(0, web)
			s.run(0, db)
			change(s)
			s.run(0, db)
			s.run(0, web)
			s.run(0, db)
		})
	}
}

// The cache and the reference agree on repeated pods, whatever labels selectors
// begin to name.
func TestRepeatedPodsAreDecidedAsByTheReference(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newTestEnv(t, 1<<20, 2, "InterPodAffinity", "PodTopologySpread")
		key, value := func() string { return fmt.Sprint("l", rng.IntN(12)) }, func() string { return fmt.Sprint(rng.IntN(2)) }
		var pods []*v1.Pod
		for i := range 6 {
			b := fixture.Pod(fmt.Sprint("p", i)).Requests("cpu", "500m")
			for range 6 {
				b.Label(key(), value())
			}
			pods = append(pods, b.Obj())
		}
		pod := pods[0]
		for step := range 60 {
			on := fmt.Sprint("n", rng.IntN(20))
			switch name := fmt.Sprint("x", rng.IntN(30)); rng.IntN(9) {
			case 0:
				s.cache.SetPod(fixture.Pod(name).RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, key(), value())).On(on).Obj())
			case 1:
				s.cache.SetPod(fixture.Pod(name).PreferPodAntiAffinity(50, fixture.PodAffinityTerm("zone", key(), value())).On(on).Obj())
			case 2:
				s.cache.SetPod(fixture.Pod(name).Label(key(), value()).Requests("cpu", "100m").On(on).Obj())
			case 3:
				s.service(fmt.Sprint("s", step), key(), value())
			case 4:
				s.replicaSet(fmt.Sprint("r", step), key(), value())
			case 5:
				s.cache.RemovePodByUID(fixture.Pod(name).Obj().UID)
			}
			if rng.IntN(3) == 0 {
				pod = pods[rng.IntN(len(pods))]
			}
			s.run(rng.IntN(2), pod)
		}
	}
}
