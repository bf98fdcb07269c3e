package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/scopedinformers"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// hoard is what all instances of a greedy plugin have together.
type leakFixture struct {
	server  *httptest.Server
	gauge   *prometheus.GaugeVec
	client  *fake.Clientset
	pool    *scopedinformers.Pool
	serials atomic.Int64

	timers, connections                       atomic.Int64
	handlerCalls, handlerCallsBefore, markers atomic.Int64
}

// greedy starts one of everything that a plugin can start.
type leakyPlugin struct {
	*probe.Plugin
	fixture *leakFixture
	serial  string
	http    *http.Transport
}

func (h *leakFixture) newPlugin(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	g := &leakyPlugin{
		Plugin: &probe.Plugin{PluginName: "Greedy", Log: &probe.CallLog{}}, fixture: h,
		serial: fmt.Sprint(h.serials.Add(1)), http: &http.Transport{},
	}
	go func() { <-ctx.Done() }()
	h.timers.Add(1)
	timer := time.AfterFunc(time.Hour, func() {})
	context.AfterFunc(ctx, func() { timer.Stop(); h.timers.Add(-1) })
	h.gauge.WithLabelValues(g.serial).Set(1)
	answer, err := (&http.Client{Transport: g.http}).Get(h.server.URL)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, answer.Body) // read to its end, the connection is kept idle
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	// An index under the same name in every generation; client-go takes it once.
	core := handle.SharedInformerFactory().Core().V1()
	nodes, volumes := core.Nodes().Informer(), core.PersistentVolumes().Informer()
	byZone := cache.Indexers{"zone": func(obj any) ([]string, error) { return []string{obj.(*v1.Node).Labels["zone"]}, nil }}
	_, err = nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { h.handlerCalls.Add(1) }})
	_, volumesErr := volumes.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	return g, errors.Join(err, volumesErr, nodes.AddIndexers(byZone))
}

func (g *leakyPlugin) Close() error {
	g.fixture.gauge.DeleteLabelValues(g.serial)
	g.http.CloseIdleConnections()
	return nil
}

// newHoarders is a world whose profiles run the greedy plugin, and one that
// cannot be built where "Broken" is named.
func newLeakTestEnv(t *testing.T) (*testEnv, *leakFixture) {
	h := &leakFixture{
		gauge:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "greedy"}, []string{"serial"}),
		client: fake.NewClientset(fixture.Node("n1").Label("zone", "a").Obj()),
	}
	h.server = httptest.NewUnstartedServer(http.NotFoundHandler())
	h.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			h.connections.Add(1)
		case http.StateClosed:
			h.connections.Add(-1)
		}
	}
	h.server.Start()
	t.Cleanup(h.server.Close)
	factory := informers.NewSharedInformerFactory(h.client, 0)
	factory.Core().V1().Nodes().Informer()
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	h.pool = scopedinformers.NewPool(scopedinformers.Options{Informers: factory, Watched: []runtime.Object{&v1.Node{}}, Client: h.client})
	w := newTestEnv(t)
	w.options.Informers = h.pool
	w.options.Registry["Greedy"] = framework.Registration{Name: "Greedy", New: h.newPlugin, Points: framework.Points}
	w.options.Registry["Broken"] = framework.Registration{Name: "Broken", Points: framework.Points,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, errors.New("no") }}
	return w, h
}

func leakyBlueprint(name string, i int, more ...string) *compile.Blueprint {
	chains := framework.Chains{framework.QueueSort: {{Name: "Greedy"}}}
	for _, plugin := range append([]string{"Greedy"}, more...) {
		chains[framework.Filter] = append(chains[framework.Filter], framework.Entry{Name: plugin})
	}
	return &compile.Blueprint{Name: name, Generation: int64(i), Hash: fmt.Sprint("hash-", i), Chains: chains}
}

// holdings is how much there is of everything that can leak.
type resourceCounts struct {
	Goroutines, Series, Informers, Slots, Old, Abandoned int
	Timers, Connections, Handlers                        int64
}

// look counts everything.
func (h *leakFixture) count(w *testEnv) resourceCounts {
	series := make(chan prometheus.Metric, 10000)
	h.gauge.Collect(series)
	w.mu.Lock()
	defer w.mu.Unlock()
	return resourceCounts{
		Goroutines: goruntime.NumGoroutine(), Timers: h.timers.Load(), Connections: h.connections.Load(),
		Series: len(series), Handlers: h.handlerCalls.Load() - h.handlerCallsBefore.Load(), Informers: h.pool.PluginInformers(),
		Slots: len(w.profiles) + len(w.pending), Old: len(w.oldGenerations), Abandoned: len(w.abandonedBuilds),
	}
}

// marker lets a node come, so that every handler that is left is called.
func (h *leakFixture) createMarkerNode(w *testEnv) {
	w.t.Helper()
	h.handlerCallsBefore.Store(h.handlerCalls.Load())
	node := fixture.Node(fmt.Sprint("marker-", h.markers.Add(1))).Obj()
	if _, err := h.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// wants fails the test unless there is soon as much of everything as before.
func (h *leakFixture) wantCounts(w *testEnv, want resourceCounts) {
	w.t.Helper()
	h.createMarkerNode(w)
	var got resourceCounts
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if got = h.count(w); got == want {
			return
		}
		goruntime.Gosched()
	}
	w.t.Errorf("leaked (-before, +now):\n%s", cmp.Diff(want, got))
}

// settled is what there is once nothing moves any more.
func (h *leakFixture) stableCounts(w *testEnv) resourceCounts {
	h.createMarkerNode(w)
	last, same := h.count(w), 0
	for same < 2000 {
		goruntime.Gosched()
		now := h.count(w)
		if same++; now != last {
			last, same = now, 0
		}
	}
	return last
}

// rounds is how often everything is done that could leak a little each time.
const rounds = 1000

func TestAThousandRebuildsLeaveNothingBehind(t *testing.T) {
	w, h := newLeakTestEnv(t)
	apply := func(i int) {
		if err := w.Apply(t.Context(), leakyBlueprint("p", i)); err != nil {
			t.Fatal(err)
		}
	}
	apply(0)
	before := h.stableCounts(w)
	if before.Timers != 1 || before.Series != 1 || before.Informers != 1 || before.Connections != 1 {
		t.Fatalf("one generation has %+v", before)
	}
	for i := range rounds {
		apply(i + 1)
	}
	h.wantCounts(w, before)
}

func TestAThousandProfilesThatComeAndGoLeaveNothingBehind(t *testing.T) {
	w, h := newLeakTestEnv(t)
	before := h.stableCounts(w)
	for i := range rounds {
		name := fmt.Sprint("profile-", i)
		if err := w.Apply(t.Context(), leakyBlueprint(name, 1)); err != nil {
			t.Fatal(err)
		}
		w.Delete(name)
	}
	if before.Slots != 0 || before.Informers != 0 {
		t.Fatalf("nothing runs and there is %+v", before)
	}
	h.wantCounts(w, before)
}

func TestAThousandBuildsThatFailHalfWayLeaveNothingBehind(t *testing.T) {
	w, h := newLeakTestEnv(t)
	if err := w.Apply(t.Context(), leakyBlueprint("p", 0)); err != nil {
		t.Fatal(err)
	}
	before := h.stableCounts(w)
	for i := range rounds {
		if err := w.Apply(t.Context(), leakyBlueprint("p", i+1, "Broken")); err == nil {
			t.Fatal("built with a plugin that cannot be")
		}
	}
	h.wantCounts(w, before)
}
