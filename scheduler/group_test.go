package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/test/support/fakecluster"
)

// podGroupKinds are the kinds of PodGroups that are served where any of objects is one.
func podGroupKinds(objects []runtime.Object) eventhandlers.PodGroups {
	return eventhandlers.PodGroups{Native: slices.ContainsFunc(objects, func(object runtime.Object) bool {
		_, ok := object.(*schedulingv1beta1.PodGroup)
		return ok
	})}
}

// gangPlugins enables GangScheduling.
var gangPlugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}

// runWithGangs runs a test in virtual time; the leader runs profile p with GangScheduling.
func runWithGangs(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	runTestWith(t, plugins.InTree(), func(env *testEnv) {
		env.profile("p", gangPlugins)
		defer env.startLeading()()
		test(env)
	}, objects...)
}

// gang returns count pods with 4 CPUs that name a group by Berth's annotation.
func gang(name string, count, minCount int) []runtime.Object {
	var pods []runtime.Object
	for i := range count {
		pods = append(pods, podWithCPUs(fmt.Sprintf("%s-%d", name, i), 4, 0).Mutate(func(p *v1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: name, v1alpha1.AnnotationPodGroupMinCount: fmt.Sprint(minCount)}
		}).Obj())
	}
	return pods
}

// nativeGang returns a PodGroup, and count pods with 4 CPUs that name it.
func nativeGang(name string, count, minCount int) (group *schedulingv1beta1.PodGroup, pods []runtime.Object) {
	for _, object := range gang(name, count, minCount) {
		pod := object.(*v1.Pod)
		pod.Annotations, pod.Spec.SchedulingGroup = nil, &v1.PodSchedulingGroup{PodGroupName: &name}
		pods = append(pods, pod)
	}
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: "uid-of-group"},
		Spec: schedulingv1beta1.PodGroupSpec{
			Priority:         new(int32),
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(minCount)}},
		},
	}, pods
}

// podsOf returns the pods of a gang.
func (env *testEnv) podsOf(gang string) []v1.Pod {
	list, err := env.cluster.CoreV1().Pods(metav1.NamespaceDefault).List(env.ctx, metav1.ListOptions{})
	if err != nil {
		env.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(pod v1.Pod) bool { return !strings.HasPrefix(pod.Name, gang+"-") })
}

// boundOf returns how many pods of a gang have a node.
func (env *testEnv) boundOf(gang string) int {
	bound := 0
	for _, pod := range env.podsOf(gang) {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	return bound
}

// wantBound waits for that long, and compares the numbers of bound pods of gangs a and b.
func (env *testEnv) wantBound(after time.Duration, want string) {
	env.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	env.want("bound", fmt.Sprintf("a %d, b %d", env.boundOf("a"), env.boundOf("b")), want)
}

func nodesWithCPUs(count, cpus int) []runtime.Object {
	return nodesOfCPUs(slices.Repeat([]int{cpus}, count)...)
}

// nodesOfCPUs returns a node with each of these numbers of CPUs.
func nodesOfCPUs(cpus ...int) (nodes []runtime.Object) {
	for i, n := range cpus {
		nodes = append(nodes, nodeWithCPUs(fmt.Sprint("n", i), n))
	}
	return nodes
}

// Twelve pods of 4 CPUs fit on six nodes of 8.
func TestTwoGangsThatDoNotFitTogetherRunOneAfterTheOther(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.create(gang("a", 8, 8)...)
		env.create(gang("b", 8, 8)...)
		env.wantBound(0, "a 8, b 0")
		env.want("condition of a pod that fits with three others", env.podScheduled("b-0"),
			"False Unschedulable: minCount (8) cannot be satisfied: 4 scheduled, 3 remaining, pod group preemption: No preemption victims found for incoming preemptor")
		if condition := env.podScheduled("b-4"); !strings.Contains(condition, "0/6 nodes are available: 6 Insufficient cpu") {
			t.Errorf("condition of the first that does not fit: %s", condition)
		}
		if pods, assumed := env.cache.Sizes(); pods != 8 || assumed != 0 {
			t.Errorf("%d pods in the cache, %d assumed, want the eight that are bound", pods, assumed)
		}
		for _, pod := range gang("a", 8, 8) {
			env.cluster.DeletePod(pod.(*v1.Pod))
		}
		env.wantBound(time.Minute, "a 0, b 8")
		env.want("queue", env.counts(), "")
	}, nodesWithCPUs(6, 8)...)
}

func TestAGangWaitsForItsPods(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 4, 4)
		env.create(pods[:3]...)
		env.wantBound(time.Minute, "a 0, b 0")
		env.want("queue", env.counts(), "3 gated")
		env.create(pods[3])
		env.wantBound(0, "a 4, b 0")
	}, nodesWithCPUs(2, 8)...)
}

func TestAPodThatIsAddedRunsThePreEnqueuePluginsOfItsGroupAlone(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		for i := range 50 {
			env.create(gang(fmt.Sprint("other", i), 1, 2)...)
		}
		pods := gang("a", 3, 4)
		env.create(pods[0])
		calls := func() (n float64) {
			for name, count := range env.metrics() {
				if strings.HasPrefix(name, "scheduler_framework_extension_point_duration_seconds{PreEnqueue,") {
					n += count
				}
			}
			return n
		}
		before := calls()
		env.create(pods[1])
		env.create(podWithCPUs("single", 4, 0).On("n0").Obj())
		if got := calls() - before; got < 1 || got > 4 {
			t.Errorf("%v calls for a pod of a group with two pods, and for a pod without a group that is bound; 51 groups wait", got)
		}
	}, nodesWithCPUs(2, 8)...)
}

func TestABoundPodThatIsMovedIntoAGangCountsForIt(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 4, 4)
		env.create(pods[:3]...)
		single := podWithCPUs("single", 4, 0).On("n0").Obj()
		env.create(single)
		env.want("queue", env.counts(), "3 gated")
		env.cluster.UpdatePod(single, func(p *v1.Pod) { p.Annotations = pods[0].(*v1.Pod).Annotations })
		env.wantBound(0, "a 3, b 0")
	}, nodesWithCPUs(2, 8)...)
}

func TestAPendingPodThatIsMovedIntoAGangCompletesIt(t *testing.T) {
	for name, waits := range map[string]func(p *v1.Pod){
		"it was gated on its own": func(p *v1.Pod) {
			p.Annotations, p.Spec.SchedulingGates = nil, []v1.PodSchedulingGate{{Name: "later"}}
		},
		"it was in another gang": func(p *v1.Pod) { p.Annotations[v1alpha1.AnnotationPodGroup] = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			runWithGangs(t, func(env *testEnv) {
				pods := gang("a", 4, 4)
				last := pods[3].DeepCopyObject().(*v1.Pod)
				waits(last)
				env.create(pods[:3]...)
				env.create(last)
				env.want("queue", env.counts(), "4 gated")
				env.cluster.UpdatePod(last, func(p *v1.Pod) {
					p.Annotations, p.Spec.SchedulingGates = pods[3].(*v1.Pod).Annotations, nil
				})
				env.wantBound(0, "a 4, b 0")
			}, nodesWithCPUs(2, 8)...)
		})
	}
}

// No other event comes when the pods of a gated gang say that fewer are enough.
func TestAGangWhosePodsWantFewerIsTried(t *testing.T) {
	const kueueName, kueueCount = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
	for annotation, change := range map[string]func(p *v1.Pod){
		v1alpha1.AnnotationPodGroupMinCount: func(*v1.Pod) {},
		kueueCount: func(p *v1.Pod) {
			p.Labels, p.Annotations = map[string]string{kueueName: "a"}, map[string]string{kueueCount: "4"}
		},
	} {
		t.Run(annotation, func(t *testing.T) {
			runWithGangs(t, func(env *testEnv) {
				pods := gang("a", 3, 4)
				for _, pod := range pods {
					change(pod.(*v1.Pod))
				}
				env.create(pods...)
				env.want("queue", env.counts(), "3 gated")
				for _, pod := range pods {
					env.cluster.UpdatePod(pod.(*v1.Pod), func(p *v1.Pod) { p.Annotations[annotation] = "3" })
				}
				env.wantBound(0, "a 3, b 0")
			}, nodesWithCPUs(2, 8)...)
		})
	}
}

// The pods beyond the minimum are bound where they fit, and the others wait.
func TestAnElasticGang(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.create(gang("a", 6, 3)...)
		env.wantBound(time.Minute, "a 4, b 0")
		env.create(nodeWithCPUs("more", 8))
		env.wantBound(time.Minute, "a 6, b 0")
		// A member that is replaced joins those that run.
		env.cluster.DeletePod(gang("a", 1, 3)[0].(*v1.Pod))
		env.create(podWithCPUs("a-new", 4, 0).Mutate(func(p *v1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: "a", v1alpha1.AnnotationPodGroupMinCount: "3"}
		}).Obj())
		env.wantBound(time.Minute, "a 6, b 0")
	}, nodesWithCPUs(2, 8)...)
}

func TestAWrongGroupIsRefusedWithTheReason(t *testing.T) {
	for name, test := range map[string]struct {
		change func(p *v1.Pod)
		want   string
	}{
		"two profiles": {
			func(p *v1.Pod) { p.Spec.SchedulerName = "q" },
			`False SchedulerError: all pods of a group must have the same spec.schedulerName: pod a-0 has "p", pod a-1 has "q"`,
		},
		"two priorities": {
			func(p *v1.Pod) { p.Spec.Priority = new(int32(7)) },
			"False SchedulerError: all pods of a group must have the group's priority 0: pod a-1 has 7",
		},
		"two preemption policies": {
			func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) },
			"False SchedulerError: all pods of a group must have the same spec.preemptionPolicy: pod a-0 has PreemptLowerPriority, pod a-1 has Never",
		},
		"two minimums": {
			func(p *v1.Pod) { p.Annotations[v1alpha1.AnnotationPodGroupMinCount] = "1" },
			"False SchedulerError: the pods of a group must agree on how many are scheduled together: pod a-0 says 2, pod a-1 says 1",
		},
		"a minimum that is no number": {
			func(p *v1.Pod) { p.Annotations[v1alpha1.AnnotationPodGroupMinCount] = "two" },
			`False SchedulerError: metadata.annotations[berth.dev/pod-group-min-count]: Invalid value: "two": must be a whole number of at least 1`,
		},
		"no minimum": {
			func(p *v1.Pod) { delete(p.Annotations, v1alpha1.AnnotationPodGroupMinCount) },
			"False SchedulerError: metadata.annotations[berth.dev/pod-group-min-count]: Required value: must be the number of pods that are scheduled together",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithGangs(t, func(env *testEnv) {
				env.profile("q", gangPlugins)
				pods := gang("a", 2, 2)
				test.change(pods[1].(*v1.Pod))
				env.create(pods...)
				env.wantBound(time.Minute, "a 0, b 0")
				env.want("condition", env.podScheduled("a-0"), test.want)
				env.create(podWithCPUs("other", 1, 0).Obj())
				env.want("another pod goes on", env.nodeOf("other"), "n0")
			}, nodesWithCPUs(1, 8)...)
		})
	}
}

func TestAPodGroupHasACondition(t *testing.T) {
	group, pods := nativeGang("a", 3, 3)
	runWithGangs(t, func(env *testEnv) {
		condition := func() string {
			stored, err := env.cluster.SchedulingV1beta1().PodGroups(group.Namespace).Get(env.ctx, group.Name, metav1.GetOptions{})
			if err != nil || len(stored.Status.Conditions) != 1 {
				t.Fatalf("conditions %v, error %v", stored, err)
			}
			c := stored.Status.Conditions[0]
			return strings.TrimRight(fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message), ": ")
		}
		env.create(pods...)
		env.wantBound(0, "a 0, b 0")
		env.want("condition", condition(), "PodGroupInitiallyScheduled False Unschedulable: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption victims found for incoming preemptor")
		env.create(nodeWithCPUs("more", 8))
		env.wantBound(time.Minute, "a 3, b 0")
		env.want("condition", condition(), "PodGroupInitiallyScheduled True Scheduled")
	}, append(nodesWithCPUs(1, 8), group)...)
}

// The leader that bound the pods was killed before it wrote the condition.
func TestANewLeaderCompletesTheConditionsOfPodGroups(t *testing.T) {
	for name, test := range map[string]struct {
		plugins *v1alpha1.Plugins
		bound   int
		want    string
	}{
		"all pods are bound":                  {gangPlugins, 3, "True Scheduled"},
		"too few pods are bound":              {gangPlugins, 1, ""},
		"the profile does not schedule gangs": {nil, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			group, pods := nativeGang("a", 3, 3)
			for _, pod := range pods[:test.bound] {
				pod.(*v1.Pod).Spec.NodeName = "n0"
			}
			runTestWith(t, plugins.InTree(), func(env *testEnv) {
				env.profile("p", test.plugins)
				defer env.startLeading()()
				stored, err := env.cluster.SchedulingV1beta1().PodGroups(group.Namespace).Get(env.ctx, group.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				for _, c := range stored.Status.Conditions {
					got = fmt.Sprint(c.Status, " ", c.Reason)
				}
				env.want("condition", got, test.want)
			}, slices.Concat(nodesWithCPUs(1, 32), []runtime.Object{group}, pods[:test.bound])...)
		})
	}
}

// The informer may deliver a condition after the next one was set.
func TestConditionsOfAPodGroupThatTheInformerLacks(t *testing.T) {
	refused := func(message string) error { return &cycle.GroupUnschedulableError{Message: message} }
	for name, test := range map[string]struct {
		errs []error
		want string
	}{
		"a condition that was True stays so": {[]error{nil, refused("one more pod does not fit")}, "True "},
		"the last message counts":            {[]error{refused("a"), refused("b"), refused("a")}, "False a"},
	} {
		t.Run(name, func(t *testing.T) {
			stale, _ := nativeGang("a", 3, 3)
			stale.Status.Conditions = []metav1.Condition{groupCondition(refused("a"))}
			runWithGangs(t, func(env *testEnv) {
				for _, err := range test.errs {
					env.groupStatus.set(&podgroups.Group{Key: podgroups.Key{Source: podgroups.Native, Namespace: stale.Namespace, Name: stale.Name}, PodGroup: stale}, groupCondition(err))
					synctest.Wait()
				}
				stored, err := env.cluster.SchedulingV1beta1().PodGroups(stale.Namespace).Get(env.ctx, stale.Name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				c := stored.Status.Conditions[0]
				env.want("condition", fmt.Sprint(c.Status, " ", c.Message), test.want)
				time.Sleep(2 * groupStatusLag)
				env.groupStatus.mu.Lock()
				defer env.groupStatus.mu.Unlock()
				if n := len(env.groupStatus.latest) + len(env.groupStatus.pending) + len(env.groupStatus.writing); n > 0 {
					t.Errorf("%d conditions are kept", n)
				}
			}, stale)
		})
	}
}

// The bind of one pod fails after the others are bound: it is tried again on its own, as its
// group has enough pods.
func TestABindOfAGangThatFailsIsTriedAgain(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: fmt.Errorf("refused"), Times: 1})
		env.create(gang("a", 3, 3)...)
		env.wantBound(time.Minute, "a 3, b 0")
	}, nodesWithCPUs(2, 8)...)
}

func TestPodsThatNameAGroupUnderAProfileWithoutGangSchedulingAreTriedOneByOne(t *testing.T) {
	group, pods := nativeGang("a", 3, 5)
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(append(pods, gang("b", 2, 9)...)...)
		if bound := env.boundOf("a") + env.boundOf("b"); bound != 4 {
			t.Errorf("%d pods are bound, want the four that fit", bound)
		}
	}, append(nodesWithCPUs(2, 8), group)...)
}

// Half of a gang has no pods yet when the profile begins to schedule groups.
func TestASwapTakesGangsApartAndTogether(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 4, 4)
		env.create(pods[:2]...)
		env.want("queue", env.counts(), "2 gated")
		env.profile("p", nil)
		env.wantBound(0, "a 2, b 0")
		env.profile("p", gangPlugins)
		env.create(pods[2:]...)
		env.wantBound(0, "a 4, b 0")
	}, nodesWithCPUs(2, 8)...)
}

// A nominated pod of a gang counts once while the others are decided: on its node.
func TestANominatedPodOfAGangCountsOnce(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		pods := gang("a", 2, 2)
		pods[0].(*v1.Pod).Status.NominatedNodeName = "n0"
		env.create(pods...)
		env.wantBound(0, "a 2, b 0")
	}, nodesWithCPUs(1, 8)...)
}
