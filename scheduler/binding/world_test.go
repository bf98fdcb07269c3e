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
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// world is the room, a cluster with one pod "web", and two plugins that stand
// everywhere but at Bind, where the real binder is.
type testEnv struct {
	*Binding
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelFunc
	cluster *fakecluster.Cluster
	cache   *cache.Cache
	journal *probe.CallLog
	a, b    *probe.Plugin
	pod     *v1.Pod
	// deaf is how often the attempt was told that no refusal is possible.
	stoppedRecording int
	// binders are the plugins at Bind.
	binders []string
	// extenders are asked to bind before them.
	extenders []fwk.Extender
}

// inTime runs a test in virtual time, and waits for all work it started.
func runInVirtualTime(t *testing.T, test func(w *testEnv)) {
	synctest.Test(t, func(t *testing.T) {
		journal := &probe.CallLog{}
		w := &testEnv{
			t: t, ctx: klog.NewContext(t.Context(), logr.Discard()), journal: journal,
			a: &probe.Plugin{PluginName: "A", Log: journal}, b: &probe.Plugin{PluginName: "B", Log: journal},
			cluster: fakecluster.New(userPod()), cache: cache.New(),
			binders: []string{defaultbinder.Name},
		}
		w.pod = w.informerPod()
		w.Binding = New(Options{
			Client: w.cluster, Cache: w.cache, Clock: clock.RealClock{}, Transform: eventhandlers.Trim(false), Go: func(work func()) { go work() },
		})
		test(w)
		synctest.Wait()
	})
}

// usersPod is a pod with what users write and informers do not keep.
func userPod() *v1.Pod {
	pod := fixture.Pod("web").SchedulerName("p").Requests("cpu", "100m").Obj()
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
func (w *testEnv) informerPod() *v1.Pod {
	trimmed, err := eventhandlers.Trim(false)(w.cluster.Pod(userPod()))
	if err != nil {
		w.t.Fatal(err)
	}
	return trimmed.(*v1.Pod)
}

// flight puts the pod on its way to node n1.
func (w *testEnv) newAssignment() *Assignment {
	w.t.Helper()
	probes := []*probe.Plugin{w.a, w.b}
	registry := probe.Registry(probes...)
	registry[defaultbinder.Name] = framework.Registration{Name: defaultbinder.Name, New: defaultbinder.New}
	chains := probe.Chains(probes, framework.Bind)
	for _, name := range w.binders {
		chains[framework.Bind] = append(chains[framework.Bind], framework.Entry{Name: name})
	}
	f, err := framework.New(w.ctx, framework.Config{Profile: "p", Chains: chains, Extenders: w.extenders}, registry, framework.Host{
		Client: w.cluster, WaitingPods: framework.NewWaitingPods(clock.RealClock{}),
		PodsInPreBind: framework.NewPodsInPreBind(), Clock: clock.RealClock{},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := framework.NewPodInfo(w.pod)
	if err != nil {
		w.t.Fatal(err)
	}
	return &Assignment{
		Framework: f, State: framework.NewCycleState(), Info: info, Node: "n1",
		Annotations: map[string]string{"berth.dev/decision": "why"}, StopRecordingEvents: func() { w.stoppedRecording++ },
	}
}

// fly begins and finishes.
func (w *testEnv) bindPod() (*Assignment, error) {
	f := w.newAssignment()
	if err := w.Begin(w.ctx, f); err != nil {
		return f, err
	}
	return f, w.Finish(w.ctx, f)
}

func (w *testEnv) assumed() bool {
	_, is := w.cache.AssumedNode(w.pod.UID)
	return is
}

// calls are what the cluster was asked since the last time, patches left out.
func (w *testEnv) calls() []string {
	return slices.DeleteFunc(w.cluster.TakeCalls(), func(call string) bool { return strings.HasPrefix(call, "patch") })
}

func (w *testEnv) log() logr.Logger { return logr.Discard() }

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
