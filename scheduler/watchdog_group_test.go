package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// hanging is a plugin that hangs at an extension point, or for some time where takes is set.
type hanging struct {
	point  string
	takes  time.Duration
	unhang chan struct{}
}

func (*hanging) Name() string { return "Hanging" }

func (h *hanging) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return h.call("Filter")
}

func (h *hanging) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (h *hanging) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) { h.call("Unreserve") }

func (h *hanging) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return h.call("Permit"), 0
}

func (h *hanging) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	h.call("PodGroupPostFilter")
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (h *hanging) call(point string) *fwk.Status {
	switch {
	case point != h.point:
	case h.takes > 0:
		time.Sleep(h.takes)
	default:
		<-h.unhang
	}
	return nil
}

// The loop abandons no call in the attempt of a group.
func TestACallThatHangsInTheAttemptOfAGroupFailsTheLivenessCheck(t *testing.T) {
	for point, pods := range map[string]int{"Filter": 2, "Unreserve": 3, "Permit": 2, "PodGroupPostFilter": 3} {
		t.Run(point, func(t *testing.T) {
			plugin := &hanging{point: point}
			runWithPluginForGroups(t, plugin, func(env *testEnv) {
				plugin.unhang = make(chan struct{}) // of this bubble
				var stacks []string
				env.options.Log = funcr.New(func(_, text string) { stacks = append(stacks, text) }, funcr.Options{})
				dog := env.NewWatchdog(hangLimit)
				if point == "PodGroupPostFilter" { // after that of DefaultPreemption, which has victims to try
					env.create(lowPods("n0")...)
				}
				env.create(withPriority(9, gang("a", pods, pods))...)
				time.Sleep(hangLimit + time.Second)
				want := `in a call of plugin "Hanging" at ` + point + `; the log names the pod`
				if err := dog.Check(); err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("Check returns\n  %v\nwant at the end\n  %s", err, want)
				}
				if len(stacks) != 1 || !strings.Contains(stacks[0], "(*hanging)."+point+"(") {
					t.Errorf("want one stack with the call in the log:\n%s", stacks)
				}
				close(plugin.unhang)
				synctest.Wait()
				if err := dog.Check(); err != nil {
					t.Errorf("after the call returned: %v", err)
				}
			}, nodesOfCPUs(4, 4)...)
		})
	}
}

// Each call takes less than the loop may be at one step, and all of them more. Calls of built-in
// plugins are not timed, nor those of extenders.
func TestASlowPluginInTheAttemptOfAGroupDoesNotFailTheLivenessCheck(t *testing.T) {
	for name, c := range map[string]struct {
		inTree bool
		point  string
		takes  time.Duration
		nodes  int
	}{
		"a pod takes longer, by calls of an out-of-tree plugin": {false, "Filter", 9 * time.Second, 10},
		"the group takes longer, by a built-in plugin":          {true, "Filter", 9 * time.Second, 4},
		"its submission takes longer":                           {true, "Permit", 20 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := &hanging{point: c.point, takes: c.takes}
			registration := plugins.Register(plugin.Name(), func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }, plugin, nil)
			registration.InTree = c.inTree
			registry, err := plugins.With(plugins.InTree(), registration)
			if err != nil {
				t.Fatal(err)
			}
			runForGroups(t, registry, plugin.Name(), func(env *testEnv) {
				dog := env.NewWatchdog(hangLimit)
				for _, pod := range gang("a", 8, 8) {
					env.cluster.Apply(pod)
				}
				for range 1000 {
					time.Sleep(time.Second)
					if err := dog.Check(); err != nil {
						t.Error(err)
						break
					}
				}
				env.wantBound(time.Hour, "a 8, b 0")
			}, nodesWithCPUs(c.nodes, 8)...)
		})
	}
}

// The plugin counts as in-tree, and ends the loop's own goroutine.
func TestALoopThatEndedFailsTheLivenessCheck(t *testing.T) {
	runWithFaultyBuiltIn(t, func(*testEnv, *compile.Blueprint) {}, func(env *testEnv, _ *faultyPlugin) {
		dog := env.NewWatchdog(hangLimit)
		env.create(faultyPod("a", "none"))
		if err := dog.Check(); err != nil {
			t.Fatalf("before: %v", err)
		}
		env.create(faultyPod("b", "Filter ends its goroutine"))
		const want = "the scheduling loop has ended, and the process still leads"
		if err := dog.Check(); err == nil || err.Error() != want {
			t.Errorf("Check returns\n  %v\nwant\n  %s", err, want)
		}
	})
}

func TestALoopThatEndsWithTheLeadershipPassesTheLivenessCheck(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		dog := env.NewWatchdog(hangLimit)
		env.startLeading()()
		if err := dog.Check(); err != nil {
			t.Error(err)
		}
	}, node("n1"))
}
