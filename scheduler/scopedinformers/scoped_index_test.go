package scopedinformers

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/informertest"
)

const revision = "example.com/revision"

// nodeWrite is one write to a node. The revision counts all writes from 1.
type nodeWrite struct {
	node, zone string
	revision   int
	deleted    bool
}

// indexTestEnv is a cluster whose nodes change, a factory's index over them, and the
// events that a handler outside of the factory receives. The handlers of the factory
// never receive any.
type indexTestEnv struct {
	*testing.T
	client   *fake.Clientset
	informer cache.SharedIndexInformer
	events   chan func(check func())
	writes   []nodeWrite
	latest   map[string]nodeWrite
	handled  int
}

func newIndexTestEnv(t *testing.T) *indexTestEnv {
	w := &indexTestEnv{T: t, client: fake.NewClientset(), events: make(chan func(func())), latest: map[string]nodeWrite{}}
	watched := informertest.WatchStarted(w.client, "nodes")
	factory := informers.NewSharedInformerFactory(w.client, 0)
	nodes := factory.Core().V1().Nodes().Informer()
	// The handler sends an event, and waits until the test has checked the index.
	sendEvent := func(any) {
		done := make(chan struct{})
		select {
		case w.events <- func(check func()) { check(); close(done) }:
			<-done
		case <-t.Context().Done():
		}
	}
	if _, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: sendEvent, UpdateFunc: func(_, obj any) { sendEvent(obj) }, DeleteFunc: sendEvent,
	}); err != nil {
		t.Fatal(err)
	}
	pool := NewPool(Options{
		Informers: informertest.DelayedHandlers{SharedInformerFactory: factory, Release: t.Context().Done()},
		Watched:   []runtime.Object{&v1.Node{}}, Client: w.client, Log: logr.Discard(),
	})
	s := pool.NewFactory(nil)
	t.Cleanup(s.Close)
	w.informer = s.Core().V1().Nodes().Informer()
	all := cache.Indexers{"all": func(any) ([]string, error) { return []string{"all"}, nil }}
	if err := errors.Join(w.informer.AddIndexers(byZone), w.informer.AddIndexers(all)); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	<-watched
	return w
}

// writeNode writes a node, or deletes it where zone is empty.
func (w *indexTestEnv) writeNode(node, zone string) {
	w.Helper()
	is := nodeWrite{node, zone, len(w.writes) + 1, zone == ""}
	obj := fixture.Node(node).Zone(zone).Annotation(revision, strconv.Itoa(is.revision)).Obj()
	was, known := w.latest[node]
	api := w.client.CoreV1().Nodes()
	var err error
	switch {
	case is.deleted:
		err = api.Delete(w.Context(), node, metav1.DeleteOptions{})
	case known && !was.deleted:
		_, err = api.Update(w.Context(), obj, metav1.UpdateOptions{})
	default:
		_, err = api.Create(w.Context(), obj, metav1.CreateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
	w.writes, w.latest[node] = append(w.writes, is), is
}

// writeRandomNode makes a random write that is possible now.
func (w *indexTestEnv) writeRandomNode(random *rand.Rand) {
	node := fmt.Sprint("n", random.IntN(5))
	zone := []string{"", "a", "b", "c"}[random.IntN(4)]
	if was, known := w.latest[node]; zone == "" && (!known || was.deleted) {
		zone = "a"
	}
	w.writeNode(node, zone)
}

// handleNextEvent calls check while the handler of the next event runs.
func (w *indexTestEnv) handleNextEvent(check func(of nodeWrite)) {
	w.Helper()
	select {
	case look := <-w.events:
		of := w.writes[w.handled]
		w.handled++
		look(func() { check(of) })
	case <-time.After(20 * time.Second):
		w.Fatal("no event")
	}
}

// revisions returns the revisions that an index holds of the nodes with a value.
func (w *indexTestEnv) revisions(index, value string) map[string]int {
	w.Helper()
	found, err := w.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		w.Fatal(err)
	}
	revisions := map[string]int{}
	for _, obj := range found {
		node := obj.(*v1.Node)
		revisions[node.Name], _ = strconv.Atoi(node.Annotations[revision])
	}
	return revisions
}

// wantNotStale checks that the index holds a node at least as new as a write.
func (w *indexTestEnv) wantNotStale(of nodeWrite) {
	w.Helper()
	has, there := w.revisions("all", "all")[of.node]
	deletedLater := slices.ContainsFunc(w.writes[of.revision-1:], func(later nodeWrite) bool { return later.node == of.node && later.deleted })
	switch {
	case there && has < of.revision:
		w.Errorf("at the event of write %d, %+v, the index has the node as of write %d", of.revision, of, has)
	case !there && !deletedLater:
		w.Errorf("at the event of write %d, %+v, the index does not have the node", of.revision, of)
	}
}

// wantExactIndex compares all that the index returns with the nodes that exist.
func (w *indexTestEnv) wantExactIndex() {
	w.Helper()
	want := map[string]map[string]int{}
	for _, is := range w.latest {
		if !is.deleted {
			if want[is.zone] == nil {
				want[is.zone] = map[string]int{}
			}
			want[is.zone][is.node] = is.revision
		}
	}
	indexer, got := w.informer.GetIndexer(), map[string]map[string]int{}
	for _, zone := range indexer.ListIndexFuncValues("zone") {
		got[zone] = w.revisions("zone", zone)
		keys, err := indexer.IndexKeys("zone", zone)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want[zone])), keys); diff != "" || err != nil {
			w.Errorf("keys in zone %s (-want,+got), %v:\n%s", zone, err, diff)
		}
		alike, err := indexer.Index("zone", fixture.Node("any").Zone(zone).Obj())
		if len(alike) != len(want[zone]) || err != nil {
			w.Errorf("%d nodes are like one in zone %s, want %d; %v", len(alike), zone, len(want[zone]), err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("nodes by zone (-want,+got):\n%s", diff)
	}
}

// Berth's own handlers requeue pods; the plugins that then evaluate those pods read
// the indexes of their factory.
func TestAnIndexIsNeverBehindAnEvent(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w, random := newIndexTestEnv(t), rand.New(rand.NewPCG(seed, 0))
			for range 30 {
				// The store may hold the last of several writes before the handler
				// receives the event of the first.
				for range 1 + random.IntN(3) {
					w.writeRandomNode(random)
				}
				for w.handled < len(w.writes) && !t.Failed() {
					w.handleNextEvent(w.wantNotStale)
				}
				w.wantExactIndex()
				if t.Failed() {
					t.Fatalf("after %+v", w.writes)
				}
			}
		})
	}
}

func TestAnIndexThatIsAddedLaterHoldsExistingObjects(t *testing.T) {
	w := newIndexTestEnv(t)
	w.writeNode("n1", "a")
	w.handleNextEvent(func(nodeWrite) {})
	err := w.informer.AddIndexers(cache.Indexers{"name": func(obj any) ([]string, error) { return []string{obj.(*v1.Node).Name}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := w.informer.GetIndexer().IndexKeys("name", "n1"); err != nil || !slices.Equal(keys, []string{"n1"}) {
		t.Errorf("keys %v, %v", keys, err)
	}
	w.wantExactIndex()
}

func TestAnIndexFunctionThatFailsLosesItsOwnObjectOnly(t *testing.T) {
	for how, fail := range map[string]func() ([]string, error){
		"with an error": func() ([]string, error) { return nil, errors.New("no zone") },
		"with a panic":  func() ([]string, error) { panic("no zone") },
	} {
		t.Run(how, func(t *testing.T) {
			w := newIndexTestEnv(t)
			err := w.informer.AddIndexers(cache.Indexers{"strict": func(obj any) ([]string, error) {
				if zone := obj.(*v1.Node).Labels[v1.LabelTopologyZone]; zone != "c" {
					return []string{zone}, nil
				}
				return fail()
			}})
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct{ node, zone, values string }{
				{"n1", "c", "[]"}, {"n2", "a", "[a]"}, {"n1", "b", "[a b]"}, {"n2", "c", "[b]"},
			} {
				w.writeNode(step.node, step.zone)
				w.handleNextEvent(func(nodeWrite) {})
				if values := fmt.Sprint(slices.Sorted(slices.Values(w.informer.GetIndexer().ListIndexFuncValues("strict")))); values != step.values {
					t.Errorf("with %s in zone %s the values are %s, want %s", step.node, step.zone, values, step.values)
				}
				w.wantExactIndex()
			}
		})
	}
}

// newIndexOverStore returns an index of nodes by zone, and the store that it follows.
func newIndexOverStore(t *testing.T) (*scopedIndex, cache.Indexer) {
	c := &changeTracker{}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{changeTrackerIndex: c.recordChange})
	x := newScopedIndex(store, byZone, logr.Discard())
	c.followers = map[*scopedIndex]struct{}{x: {}}
	return x, store
}

func TestAnUnreadIndexRemembersABoundedNumberOfChanges(t *testing.T) {
	x, store := newIndexOverStore(t)
	put := func(i int, zone string) {
		if err := store.Add(fixture.Node(fmt.Sprint("n", i)).Zone(zone).Obj()); err != nil {
			t.Fatal(err)
		}
	}
	put(0, "a")
	if keys, _ := x.IndexKeys("zone", "a"); len(keys) != 1 {
		t.Fatalf("keys %v", keys)
	}
	for i := range maxChanges + 100 {
		put(i, "b")
		if len(x.changes) > maxChanges {
			t.Fatalf("%d changes are remembered, want at most %d", len(x.changes), maxChanges)
		}
	}
	if keys, _ := x.IndexKeys("zone", "b"); len(keys) != maxChanges+100 {
		t.Errorf("%d nodes in zone b, want %d", len(keys), maxChanges+100)
	}
	if keys, _ := x.IndexKeys("zone", "a"); len(keys) != 0 {
		t.Errorf("%v are still in zone a", keys)
	}
}

// client-go writes a relist into a store with one Replace.
func TestAnIndexHasNothingThatARelistDidNotFind(t *testing.T) {
	in := func(nodes ...string) []any {
		var all []any
		for _, node := range nodes {
			all = append(all, fixture.Node(node).Zone("a").Obj())
		}
		return all
	}
	for name, relists := range map[string][][]any{
		"one node is deleted":                          {in("n1", "n3")},
		"all nodes are deleted":                        {nil},
		"one node is deleted and another one created":  {in("n1", "n3", "n4")},
		"all nodes are deleted and others created":     {in("n4", "n5", "n6")},
		"a node is deleted and created again":          {in("n1", "n3"), in("n1", "n2", "n3")},
		"nodes are deleted in two relists":             {in("n1", "n3"), in("n3")},
		"all nodes are deleted, and one created again": {nil, in("n2")},
		"no node is deleted":                           {in("n1", "n2", "n3")},
	} {
		t.Run(name, func(t *testing.T) {
			x, store := newIndexOverStore(t)
			nodes := in("n1", "n2", "n3")
			for _, relisted := range append([][]any{nodes}, relists...) {
				if err := store.Replace(relisted, ""); err != nil {
					t.Fatal(err)
				}
				want := slices.Sorted(slices.Values(store.ListKeys()))
				names := func(objects []any, err error) []string {
					if err != nil {
						t.Fatal(err)
					}
					var names []string
					for _, obj := range objects {
						names = append(names, obj.(*v1.Node).Name)
					}
					slices.Sort(names)
					return names
				}
				keys, err := x.IndexKeys("zone", "a")
				if !slices.Equal(keys, want) || err != nil {
					t.Errorf("IndexKeys: %v, want %v; %v", keys, want, err)
				}
				if got := names(x.ByIndex("zone", "a")); !slices.Equal(got, want) {
					t.Errorf("ByIndex: %v, want %v", got, want)
				}
				if got := names(x.Index("zone", nodes[0])); !slices.Equal(got, want) {
					t.Errorf("Index: %v, want %v", got, want)
				}
				if got := x.ListIndexFuncValues("zone"); len(got) != min(1, len(want)) {
					t.Errorf("ListIndexFuncValues: %v of the nodes %v", got, want)
				}
			}
		})
	}
}

func TestRelistsLeaveABoundedNumberOfEntries(t *testing.T) {
	x, store := newIndexOverStore(t)
	for relist := range 100 {
		var nodes []any
		for i := range 1000 {
			nodes = append(nodes, fixture.Node(fmt.Sprintf("n%d-%d", relist, i)).Zone("a").Obj())
		}
		if err := store.Replace(nodes, ""); err != nil {
			t.Fatal(err)
		}
		if found, _ := x.ByIndex("zone", "a"); len(found) != len(nodes) {
			t.Fatalf("%d nodes are found, want %d", len(found), len(nodes))
		}
		if bound := 2*len(nodes) + maxChanges; len(x.entries) > bound {
			t.Fatalf("after %d relists the index has %d entries for %d nodes, want at most %d", relist+1, len(x.entries), len(nodes), bound)
		}
	}
}

// A watch that ends with "too old resource version" is followed by a list, which
// lacks an object that was deleted in between.
func TestAnIndexIsExactAfterAWatchThatBroke(t *testing.T) {
	client := fake.NewClientset(fixture.Node("n1").Zone("a").Obj(), fixture.Node("n2").Zone("a").Obj())
	watches := make(chan *watch.FakeWatcher, 10)
	client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
		begun := watch.NewFake()
		watches <- begun
		return true, begun, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	deleted := make(chan string, 10)
	if _, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		deleted <- key
	}}); err != nil {
		t.Fatal(err)
	}
	pool := NewPool(Options{Informers: factory, Watched: []runtime.Object{&v1.Node{}}, Client: client, Log: logr.Discard()})
	s := pool.NewFactory(nil)
	t.Cleanup(s.Close)
	nodes := s.Core().V1().Nodes().Informer()
	if err := nodes.AddIndexers(byZone); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if keys, err := nodes.GetIndexer().IndexKeys("zone", "a"); len(keys) != 2 || err != nil {
		t.Fatalf("nodes %v, %v", keys, err)
	}
	broken := <-watches
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expired := apierrors.NewResourceExpired("too old resource version").Status()
	broken.Error(&expired)
	select {
	case key := <-deleted:
		if keys, err := nodes.GetIndexer().IndexKeys("zone", "a"); !slices.Equal(keys, []string{"n2"}) || err != nil {
			t.Errorf("at the event of %s's deletion the index has %v, want [n2]; %v", key, keys, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no event of the deletion")
	}
}

func TestReadersAndWritersOfAnIndexDoNotDisturbEachOther(t *testing.T) {
	x, store := newIndexOverStore(t)
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 500 {
				node := fixture.Node(fmt.Sprint("n", i%7)).Zone("a").Obj()
				if i%3 == 0 {
					_ = store.Delete(node)
				} else {
					_ = store.Add(node)
				}
				_, _ = x.ByIndex("zone", "a")
			}
		}()
	}
	<-done
	<-done
	found, err := x.IndexKeys("zone", "a")
	if want := slices.Sorted(slices.Values(store.ListKeys())); err != nil || !slices.Equal(found, want) {
		t.Errorf("the index has %v, the store %v; %v", found, want, err)
	}
}

func TestAClosedFactoryLeavesNothingInTheSharedStore(t *testing.T) {
	w := newTestEnv(t)
	shared := w.pool.options.Informers.Core().V1().Nodes().Informer().GetIndexer()
	for range 3 {
		s := w.pool.NewFactory(nil)
		nodes := s.Core().V1().Nodes().Informer()
		if err := nodes.AddIndexers(byZone); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := nodes.GetIndexer().ByIndex("zone", "a"); err == nil {
			t.Error("the index of a closed factory can be read")
		}
		if err := nodes.AddIndexers(byZone); !errors.Is(err, ErrClosed) {
			t.Errorf("an index after Close: %v, want ErrClosed", err)
		}
	}
	for _, c := range w.pool.changes {
		if len(c.followers) != 0 {
			t.Errorf("%d indexes of closed factories still follow the store", len(c.followers))
		}
	}
	got := slices.Sorted(maps.Keys(shared.GetIndexers()))
	if diff := cmp.Diff([]string{changeTrackerIndex, cache.NamespaceIndex}, got); diff != "" {
		t.Errorf("indexes of the shared store (-want,+got):\n%s", diff)
	}
	if values := shared.ListIndexFuncValues(changeTrackerIndex); len(values) != 0 {
		t.Errorf("the shared store holds the values %v for them", values)
	}
}
