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
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// leakFixture is what all instances of leakyPlugin share.
type leakFixture struct {
	server  *httptest.Server
	gauge   *prometheus.GaugeVec
	client  *fake.Clientset
	pool    *scopedinformers.Pool
	serials atomic.Int64

	timers, connections   atomic.Int64
	markers, handlerCalls atomic.Int64 // marker nodes created, and handlers called with the newest of them
}

// markerNode returns the name of the newest marker node.
func (h *leakFixture) markerNode() string { return fmt.Sprint("marker-", h.markers.Load()) }

// leakyPlugin starts one of everything that a plugin can start.
type leakyPlugin struct {
	*probe.Plugin
	fixture *leakFixture
	serial  string
	http    *http.Transport
}

func (h *leakFixture) newPlugin(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	g := &leakyPlugin{
		Plugin: &probe.Plugin{PluginName: "Leaky", Log: &probe.CallLog{}}, fixture: h,
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
	_, err = io.Copy(io.Discard, answer.Body) // read to the end, so that the connection stays idle
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	// Every generation uses the same index name, which client-go accepts once.
	core := handle.SharedInformerFactory().Core().V1()
	nodes, volumes := core.Nodes().Informer(), core.PersistentVolumes().Informer()
	byZone := cache.Indexers{"zone": func(obj any) ([]string, error) { return []string{obj.(*v1.Node).Labels["zone"]}, nil }}
	// A new handler is also called with every node that exists, and that may come late.
	_, err = nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if obj.(*v1.Node).Name == h.markerNode() {
			h.handlerCalls.Add(1)
		}
	}})
	_, volumesErr := volumes.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	return g, errors.Join(err, volumesErr, nodes.AddIndexers(byZone))
}

func (g *leakyPlugin) Close() error {
	g.fixture.gauge.DeleteLabelValues(g.serial)
	g.http.CloseIdleConnections()
	return nil
}

// newLeakTestEnv returns an environment with the leaky plugin, and with a plugin called
// "Broken" that cannot be built.
func newLeakTestEnv(t *testing.T) (*testEnv, *leakFixture) {
	h := &leakFixture{
		gauge:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "leaky"}, []string{"serial"}),
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
	env := newTestEnv(t)
	env.options.Informers = h.pool
	env.options.Registry["Leaky"] = framework.Registration{Name: "Leaky", New: h.newPlugin, Points: framework.Points}
	env.options.Registry["Broken"] = framework.Registration{Name: "Broken", Points: framework.Points,
		New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return nil, errors.New("no") }}
	return env, h
}

func leakyBlueprint(name string, i int, more ...string) *compile.Blueprint {
	chains := framework.Chains{framework.QueueSort: {{Name: "Leaky"}}}
	for _, plugin := range append([]string{"Leaky"}, more...) {
		chains[framework.Filter] = append(chains[framework.Filter], framework.Entry{Name: plugin})
	}
	return &compile.Blueprint{Name: name, Generation: int64(i), Hash: fmt.Sprint("hash-", i), Chains: chains}
}

// resourceCounts counts everything that can leak.
type resourceCounts struct {
	Goroutines, Series, Informers, Slots, Old, Abandoned int
	Timers, Connections, Handlers                        int64
}

// count returns the current counts.
func (h *leakFixture) count(env *testEnv) resourceCounts {
	series := make(chan prometheus.Metric, 10000)
	h.gauge.Collect(series)
	env.mu.Lock()
	defer env.mu.Unlock()
	return resourceCounts{
		Goroutines: goruntime.NumGoroutine(), Timers: h.timers.Load(), Connections: h.connections.Load(),
		Series: len(series), Handlers: h.handlerCalls.Load(), Informers: h.pool.PluginInformers(),
		Slots: len(env.profiles) + len(env.pending), Old: len(env.oldGenerations), Abandoned: len(env.abandonedBuilds),
	}
}

// createMarkerNode creates a node, so that each remaining handler is called.
func (h *leakFixture) createMarkerNode(env *testEnv) {
	env.t.Helper()
	h.markers.Add(1)
	h.handlerCalls.Store(0)
	node := fixture.Node(h.markerNode()).Obj()
	if _, err := h.client.CoreV1().Nodes().Create(env.t.Context(), node, metav1.CreateOptions{}); err != nil {
		env.t.Fatal(err)
	}
}

// wantCounts fails the test unless the counts soon stay equal to want.
func (h *leakFixture) wantCounts(env *testEnv, want resourceCounts) {
	env.t.Helper()
	h.createMarkerNode(env)
	var got resourceCounts
	same := 0
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if got = h.count(env); got != want {
			same = 0
		} else if same++; same == stable {
			return
		}
		goruntime.Gosched()
	}
	env.t.Errorf("leaked (-before, +now):\n%s", cmp.Diff(want, got))
}

// stable is how often in a row counts are equal when nothing is expected to change them.
const stable = 2000

// stableCounts returns the counts once they no longer change. The marker node has called
// so many handlers by then.
func (h *leakFixture) stableCounts(env *testEnv, handlers int64) resourceCounts {
	env.t.Helper()
	h.createMarkerNode(env)
	last, same := h.count(env), 0
	for deadline := time.Now().Add(10 * time.Second); same < stable; {
		if time.Now().After(deadline) {
			env.t.Fatalf("want the counts to stay as they are, with %d handlers, and they are %+v", handlers, last)
		}
		goruntime.Gosched()
		now := h.count(env)
		if same++; now != last || now.Handlers != handlers {
			last, same = now, 0
		}
	}
	return last
}

// rounds is how often a test repeats what might leak each time.
const rounds = 1000

func TestAThousandRebuildsLeaveNothingBehind(t *testing.T) {
	env, h := newLeakTestEnv(t)
	apply := func(i int) {
		if err := env.Apply(t.Context(), leakyBlueprint("p", i)); err != nil {
			t.Fatal(err)
		}
	}
	apply(0)
	before := h.stableCounts(env, 1)
	if before.Timers != 1 || before.Series != 1 || before.Informers != 1 || before.Connections != 1 {
		t.Fatalf("one generation has %+v", before)
	}
	for i := range rounds {
		apply(i + 1)
	}
	h.wantCounts(env, before)
}

func TestAThousandProfilesThatComeAndGoLeaveNothingBehind(t *testing.T) {
	env, h := newLeakTestEnv(t)
	before := h.stableCounts(env, 0)
	for i := range rounds {
		name := fmt.Sprint("profile-", i)
		if err := env.Apply(t.Context(), leakyBlueprint(name, 1)); err != nil {
			t.Fatal(err)
		}
		env.Delete(name)
	}
	if before.Slots != 0 || before.Informers != 0 {
		t.Fatalf("nothing runs, but the counts are %+v", before)
	}
	h.wantCounts(env, before)
}

func TestAThousandBuildsThatFailHalfWayLeaveNothingBehind(t *testing.T) {
	env, h := newLeakTestEnv(t)
	if err := env.Apply(t.Context(), leakyBlueprint("p", 0)); err != nil {
		t.Fatal(err)
	}
	before := h.stableCounts(env, 1)
	for i := range rounds {
		if err := env.Apply(t.Context(), leakyBlueprint("p", i+1, "Broken")); err == nil {
			t.Fatal("built with a plugin that cannot be")
		}
	}
	h.wantCounts(env, before)
}
