package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// world is a Scheduler with real informers over a fake cluster, in virtual
// time, and one profile "p": probe A stands everywhere but at Bind and Permit's
// waiting, where the real binder is.
type testEnv struct {
	*Scheduler
	t           *testing.T
	ctx         context.Context
	cluster     *fakecluster.Cluster
	a           *probe.Plugin
	journal     *probe.CallLog
	events      *eventRecorder
	unsupported string // the field that this build cannot honour
	// told are the explanations that were written and stand, by pod.
	explanations map[string]decision.Explanation
}

// inTime runs a test in virtual time with the given objects in the cluster.
// Nothing leads yet.
func runTest(t *testing.T, test func(w *testEnv), objects ...runtime.Object) {
	runTestWith(t, nil, test, objects...)
}

// inTimeWith is inTime for the plugins of a registry, which stand for the probe
// and the binder.
func runTestWith(t *testing.T, registry framework.Registry, test func(w *testEnv), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		w, end := newTestEnv(t, registry, objects...)
		test(w)
		end()
	})
}

// newWorld starts a Scheduler for the bubble that the test runs in; end ends it.
func newTestEnv(t *testing.T, registry framework.Registry, objects ...runtime.Object) (w *testEnv, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	journal := &probe.CallLog{}
	w = &testEnv{
		t: t, explanations: map[string]decision.Explanation{}, ctx: ctx, cluster: fakecluster.New(objects...), journal: journal, events: &eventRecorder{},
		a: &probe.Plugin{PluginName: "A", Log: journal, Statuses: map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}},
	}
	if registry == nil {
		registry = probe.Registry(w.a)
		registry[defaultbinder.Name] = framework.Registration{Name: defaultbinder.Name, New: defaultbinder.New}
	}
	w.Scheduler = New(Options{
		Client: w.cluster, Informers: eventhandlers.NewInformers(w.cluster, eventhandlers.Trim(false)), Transform: eventhandlers.Trim(false), Storage: storageKinds(t, w.cluster, objects),
		RecorderFor: func(string) events.EventRecorderLogger { return w.events }, Registry: registry,
		Unsupported: func(*v1.Pod) (string, string) { return w.unsupported, "not yet" },
		Ledger:      decision.NewLedger(time.Now), Explanations: decision.NewExplanationQueue(time.Now), Clock: clock.RealClock{}, Log: logr.Discard(),
		Epoch: func(context.Context) int64 { return 3 },
	})
	var done sync.WaitGroup
	done.Go(func() {
		if err := (Standby{w.Scheduler}).Start(ctx); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(time.Second) // until the informers have synced
	for _, name := range []string{"p", "q"} {
		w.options.Ledger.Open(name) // as the controllers do
	}
	return w, func() {
		cancel()
		done.Wait()
		w.options.Informers.Shutdown()
	}
}

// blueprint runs A and the real binder.
func (w *testEnv) blueprint(hash string) *compile.Blueprint {
	chains := probe.Chains([]*probe.Plugin{w.a}, framework.Bind)
	chains[framework.Bind] = []framework.Entry{{Name: defaultbinder.Name}}
	return &compile.Blueprint{
		Name: "p", Generation: 7, Hash: hash, Chains: chains,
		Queue: compile.QueueSettings{InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute},
		// Explained it would be asked more than an attempt asks.
		Decisions: compile.DecisionSettings{Annotate: true, TopScores: 2, Explain: decision.ExplainNone},
	}
}

func (w *testEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Errorf("the change was refused: %v", err)
	}
}

func (w *testEnv) apply(hash string) {
	w.t.Helper()
	if err := w.Profiles().Apply(w.ctx, w.blueprint(hash)); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// lead makes the scheduler the leader, and waits until it has nothing to do.
func (w *testEnv) startLeading() (end func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if err := w.Start(ctx); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
	return func() { cancel(); done.Wait() }
}

// create lets somebody create objects, and waits for what comes of it.
func (w *testEnv) create(objects ...runtime.Object) {
	for _, object := range objects {
		w.cluster.Apply(object)
	}
	synctest.Wait()
}

func (w *testEnv) nodeOf(pod string) string { return w.cluster.Pod(webPod(pod)).Spec.NodeName }

// scheduled is a pod's PodScheduled condition, as "status reason: message".
func (w *testEnv) podScheduled(pod string) string {
	for _, c := range w.cluster.Pod(webPod(pod)).Status.Conditions {
		if c.Type == v1.PodScheduled {
			return strings.TrimRight(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": ")
		}
	}
	return ""
}

// counts are how many pods are where, "" for an empty queue.
func (w *testEnv) counts() string {
	c := w.queue.Counts("p")
	var text []string
	for _, n := range []struct {
		name string
		n    int
	}{{"active", c.Active}, {"backoff", c.Backoff}, {"unschedulable", c.Unschedulable}, {"gated", c.Gated}, {"parked", c.Held}, {"in flight", c.InFlight}} {
		if n.n > 0 {
			text = append(text, fmt.Sprint(n.n, " ", n.name))
		}
	}
	return strings.Join(text, ", ")
}

func (w *testEnv) wantLines(what string, got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (w *testEnv) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func webPod(name string) *v1.Pod { return fixture.Pod(name).SchedulerName("p").Obj() }

func node(name string) *v1.Node { return fixture.Node(name).Obj() }

// recorder keeps the events as "type reason note".
type eventRecorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *eventRecorder) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%s %s %s: %s", about.(*v1.Pod).Name, kind, reason, fmt.Sprintf(note, args...)))
}

func (r *eventRecorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r *eventRecorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}
