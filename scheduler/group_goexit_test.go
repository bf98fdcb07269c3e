package scheduler

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// runWithPluginForGroups runs a test under a leader whose profile p has GangScheduling and an
// out-of-tree plugin.
func runWithPluginForGroups(t *testing.T, plugin fwk.Plugin, test func(env *testEnv), objects ...runtime.Object) {
	registry, err := plugins.With(plugins.InTree(), plugins.Register(plugin.Name(),
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }, plugin, nil))
	if err != nil {
		t.Fatal(err)
	}
	runForGroups(t, registry, plugin.Name(), test, objects...)
}

// runForGroups runs a test under a leader whose profile p has GangScheduling and the plugin of that
// name.
func runForGroups(t *testing.T, registry framework.Registry, plugin string, test func(env *testEnv), objects ...runtime.Object) {
	runTestWith(t, registry, func(env *testEnv) {
		env.profile("p", &v1alpha1.Plugins{
			MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: plugin}, {Name: "GangScheduling"}}},
			QueueSort:  v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: plugin}}},
		})
		defer env.startLeading()()
		test(env)
	}, objects...)
}

// The gang of two pods fits. The plugin ends the goroutine at the second; the first holds its node then.
func TestAPluginThatEndsItsGoroutineFailsTheAttemptOfTheGroup(t *testing.T) {
	for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score", "NormalizeScore", "Reserve", "Permit"} {
		t.Run(point, func(t *testing.T) {
			o := newFaultyPlugin()
			runWithPluginForGroups(t, o, func(env *testEnv) {
				pods := gang("a", 2, 2)
				ends := pods[1].(*v1.Pod)
				ends.Labels = map[string]string{"odd": point + " ends its goroutine"}
				env.create(pods...)
				later := "a 0, b 3"
				says := fmt.Sprintf(`plugin "Odd" ended its goroutine (runtime.Goexit) in %s`, point)
				if got := env.podScheduled("a-1"); got != "False SchedulerError: "+says {
					t.Errorf("condition %q", got)
				}
				if point == "Permit" { // at which the first waits for the second
					later = "a 0, b 2"
				} else {
					env.want("condition of the first", env.podScheduled("a-0"), "False SchedulerError: failed to schedule other pod from a pod group: "+says)
				}
				if o.claimed("a-1") || env.cache.IsAssigned(ends.UID) {
					t.Errorf("claim %v, assumed %v", o.claimed("a-1"), env.cache.IsAssigned(ends.UID))
				}
				env.create(gang("b", 3, 1)...)
				env.wantBound(time.Second, later)
				for _, pod := range env.podsOf("b") {
					env.cluster.DeletePod(&pod)
				}
				time.Sleep(time.Minute)
				if got := env.podScheduled("a-1"); !strings.HasPrefix(got, `False Quarantined: plugin "Odd" ended its goroutine repeatedly in `+point) {
					t.Errorf("condition after some attempts %q", got)
				}
				env.cluster.UpdatePod(ends, func(p *v1.Pod) { p.Labels = nil })
				env.wantBound(time.Minute, "a 2, b 0")
			}, nodesOfCPUs(5, 5, 5)...)
		})
	}
}

// ending is an out-of-tree plugin that ends the goroutine in one of its calls at an extension point:
// in that number of them.
type ending struct {
	point string
	in    int
	calls int
	// at is called with the number of each call at the point; may be nil.
	at func(call int)
	// claims are the calls of Reserve without Unreserve, by pod.
	claims map[string]int
}

func (*ending) Name() string { return "Ending" }

func (e *ending) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	e.call("PreFilter")
	return nil, nil
}

func (*ending) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (e *ending) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	e.call("Filter")
	return nil
}

func (e *ending) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	e.claims[pod.Name]++
	e.call("Reserve")
	return nil
}

func (e *ending) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	e.claims[pod.Name]--
}

func (e *ending) call(point string) {
	if point != e.point {
		return
	}
	e.calls++
	if e.at != nil {
		e.at(e.calls)
	}
	if e.calls == e.in {
		goruntime.Goexit()
	}
}

// The gang fits without the two pods of lower priority, but for the plugin. Both nodes are full, so
// that the plugin is called in the search only.
func TestAPluginThatEndsItsGoroutineInTheSearchForVictimsEvictsNobody(t *testing.T) {
	for name, plugin := range map[string]*ending{
		"Filter, while the group is decided without both":  {point: "Filter", in: 3},
		"Filter, while the group is tried with one":        {point: "Filter", in: 4},
		"Reserve, while the group is decided without both": {point: "Reserve", in: 2},
		"Reserve, while the group is tried with one":       {point: "Reserve", in: 3},
	} {
		t.Run(name, func(t *testing.T) {
			plugin.claims = map[string]int{}
			runWithPluginForGroups(t, plugin, func(env *testEnv) {
				env.create(lowPods("n0", "n1")...)
				env.bindsAndDeletes()
				env.create(withPriority(9, gang("b", 2, 2))...)
				env.wantLines("evictions and bindings", env.bindsAndDeletes())
				if got, want := env.podScheduled("b-0"), fmt.Sprintf(`plugin "Ending" ended its goroutine (runtime.Goexit) in %s`, plugin.point); !strings.HasSuffix(got, want) {
					t.Errorf("condition %q, want %q at the end", got, want)
				}
				if plugin.claims["b-0"] != 0 || plugin.claims["b-1"] != 0 {
					t.Errorf("claims %v are left", plugin.claims)
				}
				env.create(podWithCPUs("single", 4, 1).Obj())
				if node := env.nodeOf("single"); node != "" {
					t.Errorf("a pod that fits nowhere is bound to %s", node)
				}
				env.wantBound(time.Minute, "a 0, b 2")
			}, nodesOfCPUs(4, 4)...)
		})
	}
}

// The gang of four fits. All nodes change after the second was decided, so that the nodes of both are
// checked in the end, that of the second first.
func TestAPluginThatEndsItsGoroutineInTheCheckOfAGroupLeavesNoPodCounted(t *testing.T) {
	plugin := &ending{point: "PreFilter", in: 6, claims: map[string]int{}}
	runWithPluginForGroups(t, plugin, func(env *testEnv) {
		plugin.at = func(call int) {
			if call == 2 {
				for i := range 4 {
					n := nodeWithCPUs(fmt.Sprint("n", i), 8)
					n.Labels = map[string]string{"changed": ""}
					_, err := env.cluster.CoreV1().Nodes().Update(env.ctx, n, metav1.UpdateOptions{})
					env.must(err)
				}
				env.cluster.Apply(podWithCPUs("single", 0, 0).Obj()) // call 3, between two slices
				time.Sleep(groupSlice)
			}
		}
		env.create(gang("a", 4, 4)...)
		env.wantBound(2*groupSlice, "a 0, b 0")
		env.want("condition", env.podScheduled("a-0"), `False SchedulerError: plugin "Ending" ended its goroutine (runtime.Goexit) in PreFilter`)
		env.create(gang("b", 8, 1)...)
		env.wantBound(0, "a 0, b 8")
		for pod, claims := range plugin.claims {
			if strings.HasPrefix(pod, "a-") && claims != 0 {
				t.Errorf("%s: reserved %d times", pod, claims)
			}
		}
	}, nodesWithCPUs(4, 8)...)
}
