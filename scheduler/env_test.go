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
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// testEnv is a Scheduler with real informers over a fake cluster, in virtual time, with one
// profile "p": probe A is at every extension point but Bind, where the default binder is.
type testEnv struct {
	*Scheduler
	t       *testing.T
	ctx     context.Context
	cluster *fakecluster.Cluster
	a       *probe.Plugin
	// b is the second plugin in runPod.
	b           *probe.Plugin
	journal     *probe.CallLog
	events      *eventRecorder
	unsupported string // the field that this build cannot honour
	// listedClaims are what a new leader's quorum list of ResourceClaims returns.
	listedClaims []leadership.ListedObject
	// explanations are the SchedulingDecisions that exist, by pod.
	explanations map[string]decision.Explanation
}

// runTest runs a test in virtual time with the given objects in the cluster. No process
// leads yet.
func runTest(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	runTestWith(t, nil, test, objects...)
}

// runTestWith is runTest with the plugins of a registry instead of the probe and the binder.
func runTestWith(t *testing.T, registry framework.Registry, test func(env *testEnv), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		env, end := newTestEnv(t, registry, objects...)
		test(env)
		end()
	})
}

// newTestEnv starts a Scheduler in the test's synctest bubble; end stops it.
func newTestEnv(t *testing.T, registry framework.Registry, objects ...runtime.Object) (env *testEnv, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	journal := &probe.CallLog{}
	env = &testEnv{
		t: t, explanations: map[string]decision.Explanation{}, ctx: ctx, cluster: fakecluster.New(objects...), journal: journal, events: &eventRecorder{},
		a: &probe.Plugin{PluginName: "A", Log: journal, Statuses: map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}},
	}
	if registry == nil {
		registry = probe.Registry(env.a)
		registry[defaultbinder.Name] = framework.Registration{Name: defaultbinder.Name, New: defaultbinder.New}
	}
	ledger := decision.NewLedger(time.Now)
	env.Scheduler = New(Options{
		Client: env.cluster, KubeConfig: &restclient.Config{Host: "https://berth.invalid"}, Informers: eventhandlers.NewInformers(env.cluster, eventhandlers.Trim(false)), Transform: eventhandlers.Trim(false), Storage: storageKinds(t, env.cluster, objects), PodGroups: podGroupKinds(objects), Devices: deviceKinds(objects),
		RecorderFor: func(string) events.EventRecorderLogger { return env.events }, Registry: registry,
		Unsupported: func(*v1.Pod) (string, string) { return env.unsupported, "not yet" },
		Ledger:      ledger, Explanations: explain.NewQueue(time.Now, ledger), Clock: clock.RealClock{}, Log: logr.Discard(),
		Epoch: func(context.Context) int64 { return 3 },
	})
	var done sync.WaitGroup
	done.Go(func() {
		if err := (Standby{env.Scheduler}).Start(ctx); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(time.Second) // until the informers have synced
	synctest.Wait()         // what the test sets now is written after the process read it
	for _, name := range []string{"p", "q"} {
		env.options.Ledger.Open(name, "") // as the controllers do
	}
	return env, func() {
		cancel()
		done.Wait()
		env.options.Informers.Shutdown()
	}
}

// blueprint returns profile p with A and the default binder.
func (env *testEnv) blueprint(hash string) *compile.Blueprint {
	chains := probe.Chains([]*probe.Plugin{env.a}, framework.Bind)
	chains[framework.Bind] = []framework.Entry{{Name: defaultbinder.Name}}
	return &compile.Blueprint{
		Name: "p", Generation: 7, Hash: hash, Chains: chains,
		Queue: compile.QueueSettings{InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute},
		// With explanations plugins would get more calls than an attempt makes.
		Decisions: compile.DecisionSettings{Annotate: true, TopScores: 2, Explain: v1alpha1.ExplainNone},
	}
}

// blueprintWith returns profile p with an in-tree plugin and its default arguments, in front
// of A and the default binder.
func (env *testEnv) blueprintWith(hash, plugin string) *compile.Blueprint {
	registration := plugins.InTree()[plugin]
	env.options.Registry[plugin] = registration
	b := env.blueprint(hash)
	for _, point := range registration.Points {
		b.Chains[point] = append([]framework.Entry{{Name: plugin, Weight: 1}}, b.Chains[point]...)
	}
	args := registration.NewArgs()
	registration.Default(args)
	b.Args = map[string]runtime.Object{plugin: args}
	return b
}

func (env *testEnv) must(err error) {
	env.t.Helper()
	if err != nil {
		env.t.Errorf("the change was refused: %v", err)
	}
}

func (env *testEnv) apply(hash string) {
	env.t.Helper()
	if err := env.Profiles().Apply(env.ctx, env.blueprint(hash)); err != nil {
		env.t.Fatal(err)
	}
	synctest.Wait()
}

// startLeading makes the scheduler the leader, and waits until it is idle.
func (env *testEnv) startLeading() (end func()) {
	ctx, cancel := context.WithCancel(env.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		if err := env.Start(ctx); err != nil {
			env.t.Error(err)
		}
	})
	synctest.Wait()
	return func() { cancel(); done.Wait() }
}

// create creates objects, and waits until the scheduler is idle.
func (env *testEnv) create(objects ...runtime.Object) {
	for _, object := range objects {
		env.cluster.Apply(object)
	}
	synctest.Wait()
}

func (env *testEnv) nodeOf(pod string) string { return env.cluster.Pod(webPod(pod)).Spec.NodeName }

// podScheduled returns a pod's PodScheduled condition as "status reason: message".
func (env *testEnv) podScheduled(pod string) string {
	for _, c := range env.cluster.Pod(webPod(pod)).Status.Conditions {
		if c.Type == v1.PodScheduled {
			return strings.TrimRight(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": ")
		}
	}
	return ""
}

// counts returns how many pods of p are where; "" for an empty queue.
func (env *testEnv) counts() string {
	c := env.queue.Counts("p")
	var text []string
	for _, n := range []struct {
		name string
		n    int
	}{{"active", c.Active}, {"backoff", c.Backoff}, {"unschedulable", c.Unschedulable}, {"gated", c.Gated}, {"held", c.Held}, {"in flight", c.InFlight}} {
		if n.n > 0 {
			text = append(text, fmt.Sprint(n.n, " ", n.name))
		}
	}
	return strings.Join(text, ", ")
}

func (env *testEnv) wantLines(what string, got []string, want ...string) {
	env.t.Helper()
	if !slices.Equal(got, want) {
		env.t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// wantReasons compares the reasons of the degradations.
func (env *testEnv) wantReasons(running profile.Running, want ...profile.DegradationReason) {
	env.t.Helper()
	var got []profile.DegradationReason
	for _, d := range running.Degradations {
		got = append(got, d.Reason)
	}
	if !slices.Equal(got, want) {
		env.t.Errorf("reasons of degradations %q, want %q", got, want)
	}
}

func (env *testEnv) want(what, got, want string) {
	env.t.Helper()
	if got != want {
		env.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func webPod(name string) *v1.Pod { return fixture.Pod(name).SchedulerName("p").Obj() }

func node(name string) *v1.Node { return fixture.Node(name).Obj() }

// eventRecorder keeps Events as "pod type reason: note".
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
