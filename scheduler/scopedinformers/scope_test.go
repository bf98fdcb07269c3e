package scopedinformers

import (
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/test/fixture"
)

// world is a house that watches nodes, on a cluster with one node and one
// StorageClass.
type testEnv struct {
	*testing.T
	client *fake.Clientset
	pool   *Pool
}

func newTestEnv(t *testing.T) *testEnv {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	w := &testEnv{T: t, client: fake.NewClientset(fixture.Node("n1").Zone("a").Obj(), class)}
	factory := informers.NewSharedInformerFactory(w.client, 0)
	factory.Core().V1().Nodes().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	w.pool = NewPool(Options{Informers: factory, Watched: []runtime.Object{&v1.Node{}}, Client: w.client, Log: logr.Discard()})
	return w
}

// heard waits until nothing of the scope is pending.
func (w *testEnv) waitForSync(s *Factory) {
	for _, pending := range s.Pending() {
		select {
		case <-pending.Done:
		case <-time.After(20 * time.Second):
			w.Fatal("not heard")
		}
	}
}

func (w *testEnv) createNode(name string) {
	w.Helper()
	if _, err := w.client.CoreV1().Nodes().Create(w.Context(), fixture.Node(name).Zone("a").Obj(), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// names is a handler that tells the names of what is added.
func sendNodeNames(into chan string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { into <- obj.(*v1.Node).Name }}
}

var byZone = cache.Indexers{"zone": func(obj any) ([]string, error) { return []string{obj.(*v1.Node).Labels[v1.LabelTopologyZone]}, nil }}

func TestClosingAFactoryRemovesItsOwnHandlersOnly(t *testing.T) {
	w := newTestEnv(t)
	first, second := w.pool.NewFactory(), w.pool.NewFactory()
	gone, stays := make(chan string, 10), make(chan string, 10)
	for s, into := range map[*Factory]chan string{first: gone, second: stays} {
		if _, err := s.Core().V1().Nodes().Informer().AddEventHandler(sendNodeNames(into)); err != nil {
			t.Fatal(err)
		}
		w.waitForSync(s)
	}
	first.Close()
	w.createNode("n2")
	if got := []string{<-stays, <-stays}; !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("the scope that goes on heard of %v", got)
	}
	if got := []string{<-gone}; len(gone) != 0 || got[0] != "n1" {
		t.Errorf("the closed scope heard of %v and %d more", got, len(gone))
	}
	if _, err := first.Core().V1().Nodes().Informer().AddEventHandler(sendNodeNames(gone)); err != ErrClosed {
		t.Errorf("a handler after the end: %v, want ErrOver", err)
	}
}

// client-go's own indexer refuses a name that is there, and cannot forget one.
func TestTwoFactoriesUseTheSameIndexNameIndependently(t *testing.T) {
	w := newTestEnv(t)
	for range 2 {
		s := w.pool.NewFactory()
		nodes := s.Core().V1().Nodes().Informer()
		if err := nodes.AddIndexers(byZone); err != nil {
			t.Fatal(err)
		}
		w.waitForSync(s)
		found, err := nodes.GetIndexer().ByIndex("zone", "a")
		if err != nil || len(found) != 1 {
			t.Errorf("found %v, %v", found, err)
		}
		if err := nodes.GetIndexer().AddIndexers(byZone); err == nil {
			t.Error("the same name twice in one scope was taken")
		}
		if _, err := nodes.GetIndexer().ByIndex(cache.NamespaceIndex, ""); err != nil {
			t.Errorf("the shared index is hidden: %v", err)
		}
		defer s.Close()
	}
	if _, err := w.pool.options.Informers.Core().V1().Nodes().Informer().GetIndexer().ByIndex("zone", "a"); err == nil {
		t.Error("the index went into what all share")
	}
}

func TestAPluginInformerRunsWhileAFactoryUsesIt(t *testing.T) {
	w := newTestEnv(t)
	first, second := w.pool.NewFactory(), w.pool.NewFactory()
	lister := first.Storage().V1().StorageClasses().Lister()
	w.waitForSync(first)
	generic, err := second.ForResource(storagev1.SchemeGroupVersion.WithResource("storageclasses"))
	if err != nil {
		t.Fatal(err)
	}
	w.waitForSync(second)
	if found, err := lister.List(labels.Everything()); len(found) != 1 || err != nil {
		t.Errorf("listed %v, %v", found, err)
	}
	if found, err := generic.Lister().List(labels.Everything()); len(found) != 1 || err != nil {
		t.Errorf("listed generically %v, %v", found, err)
	}
	if w.pool.PluginInformers() != 1 {
		t.Errorf("%d informers for plugins, want one that both share", w.pool.PluginInformers())
	}
	shared := generic.Informer()
	first.Close()
	if shared.IsStopped() || w.pool.PluginInformers() != 1 {
		t.Error("stopped while one scope wants it")
	}
	second.Close()
	if !shared.IsStopped() || w.pool.PluginInformers() != 0 {
		t.Error("it still runs, and nobody wants it")
	}
}

func TestASharedInformerIsReadOnly(t *testing.T) {
	w := newTestEnv(t)
	s := w.pool.NewFactory()
	defer s.Close()
	nodes := s.Core().V1().Nodes().Informer()
	for what, err := range map[string]error{
		"Add":                  nodes.GetStore().Add(fixture.Node("forged").Obj()),
		"Replace":              nodes.GetIndexer().Replace(nil, ""),
		"Delete":               nodes.GetIndexer().Delete(fixture.Node("n1").Obj()),
		"SetTransform":         nodes.SetTransform(nil),
		"SetWatchErrorHandler": nodes.SetWatchErrorHandler(nil),
	} {
		if err != errReadOnly {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	if got := nodes.GetStore().ListKeys(); len(got) != 1 {
		t.Errorf("the store holds %v", got)
	}
}

func TestAHandlerThatPanicsReceivesTheNextEvent(t *testing.T) {
	w := newTestEnv(t)
	s := w.pool.NewFactory()
	defer s.Close()
	heard := make(chan string, 10)
	_, err := s.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		heard <- obj.(*v1.Node).Name
		panic("as told")
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.createNode("n2")
	if got := []string{<-heard, <-heard}; !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("heard of %v", got)
	}
}

func TestAResourceThatClientGoDoesNotKnowIsAnError(t *testing.T) {
	w := newTestEnv(t)
	s := w.pool.NewFactory()
	defer s.Close()
	if _, err := s.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}); err == nil {
		t.Error("an informer of what nobody knows")
	}
	if len(s.Pending()) != 0 {
		t.Error("something waits to be heard")
	}
}
