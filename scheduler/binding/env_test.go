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
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// testEnv is a Binding over a fake cluster with one pod "web". Two test plugins are
// enabled at all extension points but Bind, where DefaultBinder is.
type testEnv struct {
	*Binding
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelFunc
	cluster *fakecluster.Cluster
	cache   *cache.Cache
	journal *probe.CallLog
	a, b    *probe.Plugin
	// inTree says that the test plugins are Berth's own.
	inTree bool
	pod    *v1.Pod
	// stoppedRecording is the number of calls of StopRecordingEvents.
	stoppedRecording int
	// binders are the plugins at Bind.
	binders []string
	// extenders bind before the plugins.
	extenders []fwk.Extender
}

// runInVirtualTime runs a test in a synctest bubble, and waits for all work that it
// started.
func runInVirtualTime(t *testing.T, test func(env *testEnv)) {
	synctest.Test(t, func(t *testing.T) {
		journal := &probe.CallLog{}
		env := &testEnv{
			t: t, ctx: klog.NewContext(t.Context(), logr.Discard()), journal: journal,
			a: &probe.Plugin{PluginName: "A", Log: journal}, b: &probe.Plugin{PluginName: "B", Log: journal},
			cluster: fakecluster.New(userPod()), cache: cache.New(),
			binders: []string{defaultbinder.Name},
		}
		env.pod = env.informerPod()
		env.Binding = New(Options{
			Client: env.cluster, Cache: env.cache, Clock: clock.RealClock{}, Transform: eventhandlers.Trim(false), Go: func(work func()) { go work() },
		})
		test(env)
		synctest.Wait()
	})
}

// userPod returns a pod with fields that users set and informers trim.
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

// informerPod returns the pod as the informer delivers it with the default trimming.
func (env *testEnv) informerPod() *v1.Pod {
	trimmed, err := eventhandlers.Trim(false)(env.cluster.Pod(userPod()))
	if err != nil {
		env.t.Fatal(err)
	}
	return trimmed.(*v1.Pod)
}

// newAssignment returns an assignment of the pod to node n1.
func (env *testEnv) newAssignment() *Assignment {
	env.t.Helper()
	probes := []*probe.Plugin{env.a, env.b}
	registry := probe.Registry(probes...)
	for name, registration := range registry {
		registration.InTree = env.inTree
		registry[name] = registration
	}
	registry[defaultbinder.Name] = framework.Registration{Name: defaultbinder.Name, New: defaultbinder.New, InTree: true}
	chains := probe.Chains(probes, framework.Bind)
	for _, name := range env.binders {
		chains[framework.Bind] = append(chains[framework.Bind], framework.Entry{Name: name})
	}
	f, err := framework.New(env.ctx, framework.Config{Profile: "p", Chains: chains, Extenders: env.extenders}, registry, framework.Host{
		Client: env.cluster, WaitingPods: framework.NewWaitingPods(clock.RealClock{}),
		PodsInPreBind: framework.NewPodsInPreBind(), Clock: clock.RealClock{},
	})
	if err != nil {
		env.t.Fatal(err)
	}
	info, err := framework.NewPodInfo(env.pod)
	if err != nil {
		env.t.Fatal(err)
	}
	return &Assignment{
		Framework: f, State: framework.NewCycleState(), Info: info, Node: "n1",
		Annotations: map[string]string{"berth.dev/decision": "why"}, StopRecordingEvents: func() { env.stoppedRecording++ },
	}
}

// bindPod calls Begin and Finish.
func (env *testEnv) bindPod() (*Assignment, error) {
	a := env.newAssignment()
	if err := env.Begin(env.ctx, a); err != nil {
		return a, err
	}
	return a, env.Finish(env.ctx, a)
}

func (env *testEnv) assumed() bool {
	_, assumed := env.cache.AssumedNode(env.pod.UID)
	return assumed
}

// calls returns the requests since the last call, without patches.
func (env *testEnv) calls() []string {
	return slices.DeleteFunc(env.cluster.TakeCalls(), func(call string) bool { return strings.HasPrefix(call, "patch") })
}

func (env *testEnv) log() logr.Logger { return logr.Discard() }

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
