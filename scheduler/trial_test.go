package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// writingPlugin tries, at each Filter call, everything that its Handle might let it change.
type writingPlugin struct {
	*probe.Plugin
	handle fwk.Handle
	failed func(error)
}

func (m *writingPlugin) Filter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	pods := m.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	m.failed(pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}))
	m.failed(pods.Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}, metav1.CreateOptions{}))
	m.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "Meddled", "Meddling", "on trial")
	m.handle.Activate(klog.Background(), map[string]*v1.Pod{"": pod})
	m.handle.IterateOverWaitingPods(func(env fwk.WaitingPod) { env.Reject("M", "on trial") })
	m.handle.RejectWaitingPod(pod.UID)
	m.handle.DeleteNominatedPodIfExists(pod)
	if info, err := framework.NewPodInfo(pod); err == nil {
		m.handle.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node.Node().Name})
	}
	return nil
}

func TestATrialChangesNothing(t *testing.T) {
	journal := &probe.CallLog{}
	old := &probe.Plugin{PluginName: "A", Log: journal, PermitTimeout: 1 << 40, Statuses: map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}}
	on := &probe.Plugin{PluginName: "M", Log: journal, Statuses: map[string]probe.StatusFunc{}}
	registry := probe.Registry(old, on)
	registry[defaultbinder.Name] = framework.Registration{Name: defaultbinder.Name, New: defaultbinder.New}
	var mu sync.Mutex
	var errs []error
	meddling := registry["M"]
	meddling.New = func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return &writingPlugin{on, handle, func(err error) { mu.Lock(); defer mu.Unlock(); errs = append(errs, err) }}, nil
	}
	registry["M"] = meddling
	runTestWith(t, registry, func(env *testEnv) {
		env.a, env.journal = old, journal
		env.apply("one")
		old.SetStatus("Filter", probe.Reject("full"))
		env.create(webPod("waits"))
		defer env.startLeading()()
		old.SetStatus("Filter", nil)
		old.SetStatus("Permit", probe.Wait)
		env.create(webPod("at-permit"))
		before := env.allObjects()
		for _, line := range []string{"waits on Permit", "default/waits Unschedulable", "nominated n2"} {
			if !strings.Contains(strings.Join(before, "\n"), line) {
				t.Fatalf("there is nothing to change: %q", before)
			}
		}

		b := env.blueprint("two")
		b.Chains = probe.Chains([]*probe.Plugin{on}, framework.Bind)
		b.Chains[framework.Bind] = []framework.Entry{{Name: defaultbinder.Name}}
		tried, err := env.Profiles().Try(env.ctx, b)
		synctest.Wait()
		if err != nil || tried.Sampled == 0 || !tried.Compared {
			t.Errorf("%+v, %v", tried, err)
		}
		env.wantLines("after the trial", env.allObjects(), before...)
		mu.Lock()
		defer mu.Unlock()
		if len(errs) == 0 {
			t.Error("the plugin made no request")
		}
		for _, err := range errs {
			if !errors.Is(err, sandbox.ErrOnTrial) {
				t.Errorf("a write returned %v, want sandbox.ErrOnTrial", err)
			}
		}
	}, node("n1"), node("n2"), fixture.Pod("runs").SchedulerName("p").On("n1").Obj(), fixture.Pod("nominated").SchedulerName("p").NominatedNodeName("n2").Obj())
}

// allObjects returns all that a trial could have changed.
func (env *testEnv) allObjects() []string {
	var out []string
	for uid, place := range env.queue.Places() {
		out = append(out, string(uid)+" "+string(place))
	}
	for _, name := range []string{"waits", "at-permit", "runs", "nominated"} {
		out = append(out, name+" on "+env.nodeOf(name)+" "+env.podScheduled(name)+", nominated "+env.cache.NominatedNode(webPod(name).UID))
	}
	env.waitingPods.Each(func(p fwk.WaitingPod) { out = append(out, p.GetPod().Name+" waits on Permit") })
	env.events.mu.Lock()
	out = append(out, env.events.lines...)
	env.events.mu.Unlock()
	slices.Sort(out)
	return out
}

func TestATrialWaitsForTheInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := profile.NewSet(profile.Options{
			Cluster: &sandbox.Source{}, CachesSynced: make(chan struct{}), Clock: clock.RealClock{},
		})
		if _, err := set.Try(t.Context(), (&testEnv{a: &probe.Plugin{PluginName: "A"}}).blueprint("one")); !errors.Is(err, profile.ErrCachesNotSynced) {
			t.Errorf("%v, want that the informers have not synced", err)
		}
	})
}
