package binding

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// world is the room, a cluster with one pod "web", and two plugins that stand
// everywhere but at Bind, where the real binder is.
type world struct {
	*Binding
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelFunc
	cluster *fakecluster.Cluster
	cache   *cache.Cache
	journal *probe.Journal
	a, b    *probe.Probe
	pod     *v1.Pod
	// deaf is how often the attempt was told that no refusal is possible.
	deaf int
	// binders are the plugins at Bind.
	binders []string
	// extenders are asked to bind before them.
	extenders []fwk.Extender
}

// inTime runs a test in virtual time, and waits for all work it started.
func inTime(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		journal := &probe.Journal{}
		w := &world{
			t: t, ctx: klog.NewContext(t.Context(), logr.Discard()), journal: journal,
			a: &probe.Probe{Called: "A", Journal: journal}, b: &probe.Probe{Called: "B", Journal: journal},
			cluster: fakecluster.New(usersPod()), cache: cache.New(),
			binders: []string{defaultbinder.Name},
		}
		w.pod = w.delivered()
		w.Binding = New(Options{
			Client: w.cluster, Cache: w.cache, Clock: clock.RealClock{}, Transform: intake.Trim(false), Go: func(work func()) { go work() },
		})
		test(w)
		synctest.Wait()
	})
}

// usersPod is a pod with what users write and informers do not keep.
func usersPod() *v1.Pod {
	pod := fixture.Pod("web").Scheduler("p").Requests("cpu", "100m").Obj()
	c := &pod.Spec.Containers[0]
	c.Command, c.Args = []string{"serve"}, []string{"--port=80"}
	c.Env = []v1.EnvVar{{Name: "MODE", ValueFrom: &v1.EnvVarSource{
		ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "web"}, Key: "mode"},
	}}}
	c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
	c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}}
	return pod
}

// delivered is the pod as the informer of an ordinary process delivers it.
func (w *world) delivered() *v1.Pod {
	trimmed, err := intake.Trim(false)(w.cluster.Pod(usersPod()))
	if err != nil {
		w.t.Fatal(err)
	}
	return trimmed.(*v1.Pod)
}

// flight puts the pod on its way to node n1.
func (w *world) flight() *Flight {
	w.t.Helper()
	probes := []*probe.Probe{w.a, w.b}
	registry := probe.Registry(probes...)
	registry[defaultbinder.Name] = framework.Registration{Name: defaultbinder.Name, New: defaultbinder.New}
	chains := probe.Chains(probes, framework.Bind)
	for _, name := range w.binders {
		chains[framework.Bind] = append(chains[framework.Bind], framework.Entry{Name: name})
	}
	f, err := framework.New(w.ctx, framework.Config{Profile: "p", Chains: chains, Extenders: w.extenders}, registry, framework.Host{
		Client: w.cluster, Waiting: framework.NewWaitingPods(clock.RealClock{}),
		PreBinds: framework.NewPreBinds(), Clock: clock.RealClock{},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := framework.NewPodInfo(w.pod)
	if err != nil {
		w.t.Fatal(err)
	}
	return &Flight{
		Framework: f, State: framework.NewCycleState(), Info: info, Node: "n1",
		Annotations: map[string]string{"berth.dev/decision": "why"}, Deaf: func() { w.deaf++ },
	}
}

// fly begins and finishes.
func (w *world) fly() (*Flight, error) {
	f := w.flight()
	if err := w.Begin(w.ctx, f); err != nil {
		return f, err
	}
	return f, w.Finish(w.ctx, f)
}

func (w *world) assumed() bool {
	_, is := w.cache.Assumed(w.pod.UID)
	return is
}

// calls are what the cluster was asked since the last time, patches left out.
func (w *world) calls() []string {
	return slices.DeleteFunc(w.cluster.Take(), func(call string) bool { return strings.HasPrefix(call, "patch") })
}

func (w *world) log() logr.Logger { return logr.Discard() }

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
