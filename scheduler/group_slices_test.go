package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fixture"
)

// slowGang takes most of a slice for each pod of gang a, and calls at for the first attempt of
// each.
type slowGang struct {
	at   func(pod string)
	seen sets.Set[string]
}

func (slowGang) Name() string { return "SlowGang" }

func (p slowGang) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if strings.HasPrefix(pod.Name, "a-") {
		if !p.seen.Has(pod.Name) {
			p.seen.Insert(pod.Name)
			p.at(pod.Name)
		}
		time.Sleep(groupSlice * 6 / 10)
	}
	return nil, nil
}

func (slowGang) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter takes a slice for each pod of gang b, and calls at.
func (p slowGang) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if strings.HasPrefix(pod.Name, "b-") {
		p.at(pod.Name)
		time.Sleep(groupSlice)
	}
	return nil
}

// runWithSlowGang runs a test with a gang a of four pods of 4 CPUs. The second ends a slice.
func runWithSlowGang(t *testing.T, at func(env *testEnv, pod string), test func(env *testEnv), objects ...runtime.Object) {
	runWithSlowGangs(t, at, func(env *testEnv) {
		env.create(gang("a", 4, 4)...)
		test(env)
	}, objects...)
}

func runWithSlowGangs(t *testing.T, at func(env *testEnv, pod string), test func(env *testEnv), objects ...runtime.Object) {
	var env *testEnv
	plugin := slowGang{func(pod string) { at(env, pod) }, sets.New[string]()}
	registry, err := plugins.With(plugins.InTree(), plugins.Register("SlowGang",
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }, plugin, nil))
	if err != nil {
		t.Fatal(err)
	}
	runTestWith(t, registry, func(e *testEnv) {
		env = e
		env.profile("p", &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "SlowGang"}, {Name: "GangScheduling"}}}})
		defer env.startLeading()()
		test(env)
	}, objects...)
}

func TestOtherPodsAreTriedBetweenTheSlicesOfAGroup(t *testing.T) {
	for name, test := range map[string]struct {
		// cpus are those of the nodes; the pod that comes with the first of the gang wants 4.
		cpus []int
		// refused says that it is refused at first, inGang how many of the gang are bound in
		// the end.
		refused bool
		inGang  int
	}{
		"there is place for all":                      {[]int{8, 8, 4}, false, 4},
		"the pod takes the place of one of the group": {[]int{8, 8}, false, 0},
		"the group counts, until it does not fit":     {[]int{8}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(env *testEnv, pod string) {
				switch pod {
				case "a-0":
					env.cluster.Apply(podWithCPUs("single", 4, 0).Obj())
				case "a-3":
					env.want("bound before the last", fmt.Sprint(env.nodeOf("single") != ""), "true")
					if _, assumed := env.cache.Sizes(); assumed != 0 {
						env.t.Errorf("%d pods are assumed between two slices, want none", assumed)
					}
				}
			}
			runWithSlowGang(t, at, func(env *testEnv) {
				env.wantBound(time.Second, fmt.Sprintf("a %d, b 0", test.inGang))
				env.want("bound in the end", fmt.Sprint(env.nodeOf("single") != ""), "true")
				refused := slices.ContainsFunc(env.events.take(), func(line string) bool { return strings.HasPrefix(line, "single Warning FailedScheduling") })
				env.want("refused at first", fmt.Sprint(refused), fmt.Sprint(test.refused))
			}, nodesOfCPUs(test.cpus...)...)
		})
	}
}

// A pod of priority 9 comes with the first of a gang, and wants the resources of one of its pods. A pod
// that takes a slice after it gives evictions time to go on before the gang is decided.
func TestNoPodPreemptsBetweenTheSlicesOfAGroup(t *testing.T) {
	for name, test := range map[string]struct {
		// cpus are those of the nodes, of which the pod wants some; low are the nodes that have a
		// pod of priority 1.
		cpus  []int
		wants int
		low   []string
		// deleted are the pods that are deleted, inGang is how many of the gang are bound in the end.
		deleted []string
		inGang  int
	}{
		"the gang does not fit, and the pod gets its place":            {cpus: []int{8}, wants: 4},
		"the gang does not fit, and no pod that runs is evicted":       {cpus: []int{8}, wants: 4, low: []string{"n0"}},
		"the gang does not fit, and the pod evicts what is in its way": {cpus: []int{8}, wants: 8, low: []string{"n0"}, deleted: []string{"low-0"}},
		"the gang is bound, and the pod evicts two of it":              {cpus: []int{8, 8}, wants: 8, deleted: []string{"a-0", "a-2"}, inGang: 2},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(env *testEnv, pod string) {
				if pod == "a-0" {
					env.cluster.Apply(podWithCPUs("single", test.wants, 9).Obj())
					env.cluster.Apply(podWithCPUs("b-slow", 0, 8).Obj())
				}
			}
			runWithSlowGangs(t, at, func(env *testEnv) {
				env.create(lowPods(test.low...)...)
				env.create(gang("a", 4, 4)...)
				env.wantBound(time.Minute, fmt.Sprintf("a %d, b 1", test.inGang))
				env.want("the pod is bound", fmt.Sprint(env.nodeOf("single") != ""), "true")
				var deleted []string
				for _, call := range env.bindsAndDeletes() {
					if pod, is := strings.CutPrefix(call, "delete "); is {
						deleted = append(deleted, pod)
					}
				}
				env.wantLines("deleted", deleted, test.deleted...)
			}, nodesOfCPUs(test.cpus...)...)
		})
	}
}

// What happens to a node after a pod of the group was decided for it is found out before any is
// assumed.
func TestAGroupIsTriedAgainWhenANodeChangesBetweenItsSlices(t *testing.T) {
	for name, change := range map[string]func(env *testEnv, node *v1.Node){
		"the node is deleted": func(env *testEnv, node *v1.Node) {
			env.must(env.cluster.CoreV1().Nodes().Delete(env.ctx, node.Name, metav1.DeleteOptions{}))
		},
		"the node is cordoned": func(env *testEnv, node *v1.Node) {
			node.Spec.Unschedulable = true
			_, err := env.cluster.CoreV1().Nodes().Update(env.ctx, node, metav1.UpdateOptions{})
			env.must(err)
		},
		"another component binds a pod to it": func(env *testEnv, node *v1.Node) {
			env.cluster.Apply(podWithCPUs("foreign", 8, 0).On(node.Name).Obj())
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(env *testEnv, pod string) {
				if pod == "a-1" {
					change(env, nodeWithCPUs("n0", 8))
					env.cluster.Apply(podWithCPUs("single", 1, 0).Obj())
				}
			}
			runWithSlowGang(t, at, func(env *testEnv) {
				env.wantBound(time.Second, "a 0, b 0")
				if condition := env.podScheduled("a-0"); !strings.HasPrefix(condition, "False SchedulerError: node n0 has changed since pod a-") {
					t.Errorf("condition %q", condition)
				}
				env.wantBound(time.Minute, "a 4, b 0")
				env.want("queue", env.counts(), "")
			}, nodesWithCPUs(4, 8)...)
		})
	}
}

// A gang of two pods evicts a pod for one of them. Each call of Filter for it takes a slice, and
// another pod comes at one of these calls.
func TestOtherPodsAreTriedDuringTheSearchForTheVictimsOfAGroup(t *testing.T) {
	for name, test := range map[string]struct {
		// comes is the call, cpus are those of the pod, and free those of each node that the
		// gang does not want.
		comes, cpus, free int
		evicted           []string
	}{
		"there is place for all":                        {2, 1, 1, []string{"low-0"}},
		"it takes a place while the group is decided":   {2, 4, 0, []string{"low-0", "single"}},
		"it takes a place while victims are added back": {6, 4, 0, []string{"low-0", "single"}},
	} {
		t.Run(name, func(t *testing.T) {
			filters := 0
			at := func(env *testEnv, pod string) {
				if filters++; filters == test.comes {
					env.cluster.Apply(podWithCPUs("single", test.cpus, 0).Obj())
				}
			}
			runWithSlowGangs(t, at, func(env *testEnv) {
				env.create(lowPods("n0")...)
				env.bindsAndDeletes()
				env.create(withPriority(9, gang("b", 2, 2))...)
				env.wantBound(time.Minute, "a 0, b 2")
				want := []string{"bind single n1"}
				for _, name := range test.evicted {
					want = append(want, "delete "+name)
				}
				others := slices.DeleteFunc(env.bindsAndDeletes(), func(call string) bool { return strings.HasPrefix(call, "bind b-") })
				env.wantLines("bindings and deletions of others", others, want...)
				failures := slices.DeleteFunc(env.events.take(), func(line string) bool { return !strings.HasPrefix(line, "b-0 Warning FailedScheduling") })
				env.want("failed attempts", fmt.Sprint(len(failures)), "1")
			}, nodesWithCPUs(2, 4+test.free)...)
		})
	}
}

// The first of a gang of two pods wants 4 CPUs, and a device or a volume, which each node has one of. It
// fits only without one of two pods of a lower priority; the second fits nowhere, so that the gang evicts
// nothing. Another pod, which comes at a call of Filter for the gang, wants a CPU and the same.
func TestNoPodPreemptsDuringTheSearchForTheVictimsOfAGroup(t *testing.T) {
	devices := []runtime.Object{fixture.DeviceClass("gpu").Obj(), fixture.ResourceClaim("b-0").Request("r", "gpu").Obj(), fixture.ResourceClaim("single").Request("r", "gpu").Obj()}
	volumes := []runtime.Object{fixture.StorageClass("local", ""), fixture.Claim("b-0", "local").Obj(), fixture.Claim("single", "local").Obj()}
	for _, node := range []string{"n0", "n1"} {
		devices = append(devices, fixture.ResourceSlice(node, "gpu.example.com").Device("d0", fixture.Attributes{}).Obj())
		volumes = append(volumes, fixture.Volume("v-"+node, "local").NodeAffinity(v1.LabelHostname, node).Obj())
	}
	for name, test := range map[string]struct {
		claim   func(*v1.Pod) *v1.Pod
		objects []runtime.Object
		// free is how many CPUs of n0 no pod has.
		free    int
		deleted []string
	}{
		"a device, and the pod fits":                      {withDevice, devices, 1, nil},
		"a volume, and the pod fits":                      {withVolume, volumes, 1, nil},
		"a device, and the pod evicts what is in its way": {withDevice, devices, 0, []string{"delete low-1"}},
		"a volume, and the pod evicts what is in its way": {withVolume, volumes, 0, []string{"delete low-1"}},
	} {
		for comes := range 6 {
			t.Run(fmt.Sprint(name, " at call ", comes+1), func(t *testing.T) {
				filters := 0
				at := func(env *testEnv, pod string) {
					if filters++; filters == comes+1 {
						env.cluster.Apply(test.claim(podWithCPUs("single", 1, 5).Obj()))
					}
				}
				runWithSlowGangs(t, at, func(env *testEnv) {
					env.cluster.RunVolumeController()
					env.create(lowPods("n0", "n1")...)
					pods := withPriority(9, gang("b", 2, 2))
					pods[0] = test.claim(pods[0].(*v1.Pod))
					pods[1].(*v1.Pod).Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("6")
					env.create(pods...)
					env.wantBound(time.Minute, "a 0, b 0")
					env.wantLines("deletions", env.deletions(), test.deleted...)
					env.want("the pod is bound", fmt.Sprint(env.nodeOf("single") != ""), "true")
				}, append(nodesOfCPUs(4+test.free, 4), test.objects...)...)
			})
		}
	}
}

// A gang of two pods wants 4 CPUs on each node, of which n0 has 6 and runs two pods of a lower
// priority. What happens to these at a call of Filter counts for the search for the victims, and stays
// counted after it.
func TestVictimsThatChangeDuringTheSearchForThem(t *testing.T) {
	resize := func(pod, cpus string) func(env *testEnv) {
		return func(env *testEnv) {
			env.cluster.UpdatePod(webPod(pod), func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus)}
			})
		}
	}
	for name, test := range map[string]struct {
		change  func(env *testEnv)
		evicted []string
	}{
		"one grows, and can stay":    {resize("small", "2"), []string{"delete low"}},
		"one grows, and cannot stay": {resize("small", "3"), []string{"delete low", "delete small"}},
		"one shrinks, and can stay":  {resize("low", "1"), nil},
		"one is deleted":             {func(env *testEnv) { env.cluster.DeletePod(webPod("small")) }, []string{"delete low"}},
		"the victim is deleted":      {func(env *testEnv) { env.cluster.DeletePod(webPod("low")) }, nil},
	} {
		for comes := range 8 {
			t.Run(fmt.Sprint(name, " at call ", comes+1), func(t *testing.T) {
				filters := 0
				at := func(env *testEnv, pod string) {
					if filters++; filters == comes+1 {
						env.cluster.Apply(podWithCPUs("single", 0, 0).Obj()) // ends a slice
						test.change(env)
					}
				}
				runWithSlowGangs(t, at, func(env *testEnv) {
					env.create(podWithCPUs("low", 4, 1).On("n0").StartTime(6).Obj(), podWithCPUs("small", 1, 1).On("n0").StartTime(5).Obj())
					env.create(withPriority(9, gang("b", 2, 2))...)
					env.wantBound(time.Minute, "a 0, b 2")
					deleted := env.deletions()
					slices.Sort(deleted)
					env.wantLines("deletions", deleted, test.evicted...)
					for _, node := range env.cache.UpdateSnapshot().Nodes() {
						sum := framework.NewNodeInfo()
						for _, info := range node.GetPods() {
							sum.AddPodInfo(info)
						}
						env.want("CPUs of "+node.Node().Name, fmt.Sprint(node.GetRequested().GetMilliCPU()), fmt.Sprint(sum.Requested.MilliCPU))
					}
				}, nodesOfCPUs(6, 5)...)
			})
		}
	}
}

// A pod that is deleted while its group is decided is no pod of the minimum.
func TestAGroupIsNotBoundInPartWhenAPodIsDeletedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		minCount int
		want     string
	}{
		"too few are left":    {4, "a 0, b 0"},
		"enough of them left": {3, "a 3, b 0"},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(env *testEnv, pod string) {
				if pod == "a-2" {
					env.cluster.DeletePod(webPod("a-0"))
				}
			}
			runWithSlowGangs(t, at, func(env *testEnv) {
				env.create(gang("a", 4, test.minCount)...)
				env.wantBound(time.Minute, test.want)
				if _, assumed := env.cache.Sizes(); assumed != 0 {
					t.Errorf("%d pods are assumed, want none", assumed)
				}
			}, nodesWithCPUs(4, 8)...)
		})
	}
}

// A nomination ends with its pod, also with one that is deleted while its group is decided.
func TestTheNominationOfAPodEndsThatIsDeletedWhileItsGroupIsDecided(t *testing.T) {
	at := func(env *testEnv, pod string) {
		if pod == "a-2" {
			env.cluster.DeletePod(webPod("a-0"))
		}
	}
	runWithSlowGangs(t, at, func(env *testEnv) {
		pods := gang("a", 4, 4)
		pods[0].(*v1.Pod).Status.NominatedNodeName = "n0"
		env.create(pods...)
		env.wantBound(time.Minute, "a 0, b 0")
		if n := env.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations, want none", n)
		}
	}, nodesOfCPUs(8, 4)...) // the group does not fit
}

// A call that hangs may still write to the cache that its attempt began with.
func TestAGroupLeavesTheCacheOfAnAttemptThatHangsBetweenItsSlices(t *testing.T) {
	var hung atomic.Bool
	at := func(env *testEnv, pod string) {
		switch pod {
		case "a-0":
			env.cluster.Apply(podWithCPUs("b-hangs", 1, 0).Obj())
		case "b-hangs":
			if !hung.Swap(true) {
				time.Sleep(time.Minute)
			}
		case "a-3":
			generation, _ := env.profiles.Acquire("p")
			defer generation.Release()
			env.want("attempts on the present cache", fmt.Sprint(generation.EquivalenceCache().Stats().Cached), "1") // that of a-2
		}
	}
	runWithSlowGang(t, at, func(env *testEnv) { env.wantBound(2*time.Minute, "a 4, b 1") }, nodesOfCPUs(8, 8, 4)...)
}
