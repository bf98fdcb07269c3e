package scopedinformers

import (
	goruntime "runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is a Pool that watches nodes, on a cluster with one node and one
// StorageClass.
type testEnv struct {
	*testing.T
	client *fake.Clientset
	pool   *Pool
}

func newTestEnv(t *testing.T) *testEnv {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	env := &testEnv{T: t, client: fake.NewClientset(fixture.Node("n1").Zone("a").Obj(), class)}
	factory := informers.NewSharedInformerFactory(env.client, 0)
	factory.Core().V1().Nodes().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	env.pool = NewPool(Options{Informers: factory, Watched: []runtime.Object{&v1.Node{}}, Client: env.client, Log: logr.Discard()})
	return env
}

// waitForSync waits until the factory has nothing pending.
func (env *testEnv) waitForSync(s *Factory) {
	for _, pending := range s.Pending() {
		select {
		case <-pending.Done:
		case <-time.After(20 * time.Second):
			env.Fatal("not synced")
		}
	}
}

func (env *testEnv) createNode(name string) {
	env.Helper()
	if _, err := env.client.CoreV1().Nodes().Create(env.Context(), fixture.Node(name).Zone("a").Obj(), metav1.CreateOptions{}); err != nil {
		env.Fatal(err)
	}
}

// sendNodeNames is a handler that sends the names of added nodes.
func sendNodeNames(into chan string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { into <- obj.(*v1.Node).Name }}
}

var byZone = cache.Indexers{"zone": func(obj any) ([]string, error) { return []string{obj.(*v1.Node).Labels[v1.LabelTopologyZone]}, nil }}

func TestClosingAFactoryRemovesItsOwnHandlersOnly(t *testing.T) {
	env := newTestEnv(t)
	first, second := env.pool.NewFactory(nil), env.pool.NewFactory(nil)
	gone, stays := make(chan string, 10), make(chan string, 10)
	for s, into := range map[*Factory]chan string{first: gone, second: stays} {
		if _, err := s.Core().V1().Nodes().Informer().AddEventHandler(sendNodeNames(into)); err != nil {
			t.Fatal(err)
		}
		env.waitForSync(s)
	}
	first.Close()
	env.createNode("n2")
	if got := []string{<-stays, <-stays}; !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("the open factory's handler received %v", got)
	}
	if got := []string{<-gone}; len(gone) != 0 || got[0] != "n1" {
		t.Errorf("the closed factory's handler received %v and %d more", got, len(gone))
	}
	if _, err := first.Core().V1().Nodes().Informer().AddEventHandler(sendNodeNames(gone)); err != ErrClosed {
		t.Errorf("a handler after Close: %v, want ErrClosed", err)
	}
}

// A new generation may have other arguments, and with them another selector.
func TestAnInformerOfAPluginsOwnConstructorBelongsToItsFactory(t *testing.T) {
	env := newTestEnv(t)
	for _, class := range []string{"slow", "cold"} {
		if _, err := env.client.StorageV1().StorageClasses().Create(env.Context(), &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class, Labels: map[string]string{"kind": class}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	selecting := func(kind string) internalinterfaces.NewInformerFunc {
		return func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
			return storageinformers.NewFilteredStorageClassInformer(client, resync, cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = "kind=" + kind })
		}
	}
	of := func(kind string) func(*Factory) cache.SharedIndexInformer {
		return func(f *Factory) cache.SharedIndexInformer {
			return f.InformerFor(&storagev1.StorageClass{}, selecting(kind))
		}
	}
	ofAll := func(f *Factory) cache.SharedIndexInformer { return f.Storage().V1().StorageClasses().Informer() }
	first, second, third := env.pool.NewFactory(nil), env.pool.NewFactory(nil), env.pool.NewFactory(nil)
	for _, c := range []struct {
		name     string
		factory  *Factory
		informer func(*Factory) cache.SharedIndexInformer
		want     []string
	}{
		{"a selector", first, of("slow"), []string{"slow"}},
		{"another selector in the same generation, as in client-go", first, of("cold"), []string{"slow"}},
		{"another selector in another generation", second, of("cold"), []string{"cold"}},
		{"no selector", third, ofAll, []string{"cold", "fast", "slow"}},
	} {
		informer := c.informer(c.factory)
		env.waitForSync(c.factory)
		got := informer.GetStore().ListKeys()
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, f := range []*Factory{first, second, third} {
		f.Close()
	}
	if n := env.pool.PluginInformers(); n != 0 {
		t.Errorf("%d informers are left", n)
	}
}

// client-go's own indexer rejects an existing name, and cannot remove one.
func TestTwoFactoriesUseTheSameIndexNameIndependently(t *testing.T) {
	env := newTestEnv(t)
	for range 2 {
		s := env.pool.NewFactory(nil)
		nodes := s.Core().V1().Nodes().Informer()
		if err := nodes.AddIndexers(byZone); err != nil {
			t.Fatal(err)
		}
		env.waitForSync(s)
		found, err := nodes.GetIndexer().ByIndex("zone", "a")
		if err != nil || len(found) != 1 {
			t.Errorf("found %v, %v", found, err)
		}
		if err := nodes.GetIndexer().AddIndexers(byZone); err == nil {
			t.Error("one factory accepted the same name twice")
		}
		if _, err := nodes.GetIndexer().ByIndex(cache.NamespaceIndex, ""); err != nil {
			t.Errorf("the shared index cannot be read: %v", err)
		}
		defer s.Close()
	}
	if _, err := env.pool.options.Informers.Core().V1().Nodes().Informer().GetIndexer().ByIndex("zone", "a"); err == nil {
		t.Error("the shared store has the index")
	}
}

func TestAPluginInformerRunsWhileAFactoryUsesIt(t *testing.T) {
	env := newTestEnv(t)
	first, second := env.pool.NewFactory(nil), env.pool.NewFactory(nil)
	lister := first.Storage().V1().StorageClasses().Lister()
	env.waitForSync(first)
	generic, err := second.ForResource(storagev1.SchemeGroupVersion.WithResource("storageclasses"))
	if err != nil {
		t.Fatal(err)
	}
	env.waitForSync(second)
	if found, err := lister.List(labels.Everything()); len(found) != 1 || err != nil {
		t.Errorf("listed %v, %v", found, err)
	}
	if found, err := generic.Lister().List(labels.Everything()); len(found) != 1 || err != nil {
		t.Errorf("listed generically %v, %v", found, err)
	}
	if env.pool.PluginInformers() != 1 {
		t.Errorf("%d informers for plugins, want one that both factories share", env.pool.PluginInformers())
	}
	shared := generic.Informer()
	first.Close()
	if shared.IsStopped() || env.pool.PluginInformers() != 1 {
		t.Error("stopped while a factory uses it")
	}
	second.Close()
	// Close does not wait until the informer has stopped.
	for deadline := time.Now().Add(20 * time.Second); !shared.IsStopped() && time.Now().Before(deadline); {
		goruntime.Gosched()
	}
	if !shared.IsStopped() || env.pool.PluginInformers() != 0 {
		t.Error("still runs without users")
	}
}

func TestAHandlerThatHangsKeepsNoFactoryOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newTestEnv(t)
		release := make(chan struct{})
		// Released at the end also where the test fails, so that it fails for its own reason.
		defer synctest.Wait()
		defer close(release)
		first := env.pool.NewFactory(nil)
		hangs := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }}
		if _, err := first.Storage().V1().StorageClasses().Informer().AddEventHandler(hangs); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			first.Close()
		}()
		synctest.Wait()
		select {
		case <-closed:
		default:
			t.Fatal("Close waits for the handler")
		}
		// The next factory has an informer of its own, whose handlers get all objects.
		second := env.pool.NewFactory(nil)
		defer second.Close()
		var added []string
		informer := second.Storage().V1().StorageClasses().Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added = append(added, obj.(*storagev1.StorageClass).Name) }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Equal(added, []string{"fast"}) || env.pool.PluginInformers() != 1 {
			t.Errorf("the next factory got %q from %d informers, want [fast] from one", added, env.pool.PluginInformers())
		}
	})
}

func TestASharedInformerIsReadOnly(t *testing.T) {
	env := newTestEnv(t)
	s := env.pool.NewFactory(nil)
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
			t.Errorf("%s: %v, want errReadOnly", what, err)
		}
	}
	if got := nodes.GetStore().ListKeys(); len(got) != 1 {
		t.Errorf("the store holds %v", got)
	}
}

func TestAHandlerThatPanicsReceivesTheNextEvent(t *testing.T) {
	env := newTestEnv(t)
	s := env.pool.NewFactory(nil)
	defer s.Close()
	received := make(chan string, 10)
	_, err := s.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		received <- obj.(*v1.Node).Name
		panic("the handler panics")
	}})
	if err != nil {
		t.Fatal(err)
	}
	env.createNode("n2")
	if got := []string{<-received, <-received}; !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("received %v", got)
	}
}

func TestAResourceThatClientGoDoesNotKnowIsAnError(t *testing.T) {
	env := newTestEnv(t)
	s := env.pool.NewFactory(nil)
	defer s.Close()
	if _, err := s.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}); err == nil {
		t.Error("got an informer of an unknown resource")
	}
	if len(s.Pending()) != 0 {
		t.Error("something is pending")
	}
}
