package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// farVersion is a resourceVersion that the test's cluster has not reached.
const farVersion = "150"

// setHandover sets what a new leader's quorum lists return.
func (env *testEnv) setHandover(pods, nodes []leadership.ListedObject) {
	env.options.Handover = Handover{
		List: func(_ context.Context, kind schema.GroupVersionResource, _ string) (leadership.ObjectList, error) {
			switch kind {
			case podKind:
				return leadership.ObjectList{ResourceVersion: farVersion, Objects: pods}, nil
			case claimKind:
				return leadership.ObjectList{ResourceVersion: farVersion, Objects: env.listedClaims}, nil
			}
			return leadership.ObjectList{ResourceVersion: farVersion, Objects: nodes}, nil
		},
		Profiles: func(context.Context) ([]string, error) { return []string{"p"}, nil },
	}
}

// listedNodes returns the nodes n and m, with n at that version.
func listedNodes(n string) []leadership.ListedObject {
	return []leadership.ListedObject{{Name: "n", UID: node("n").UID, ResourceVersion: n}, {Name: "m", UID: node("m").UID, ResourceVersion: "1"}}
}

// advanceVersion changes the pod b until the cluster has reached farVersion.
func (env *testEnv) advanceVersion() {
	for b := webPod("b"); env.cluster.Pod(b).ResourceVersion < farVersion; {
		env.cluster.UpdatePod(b, func(pod *v1.Pod) { pod.Labels = map[string]string{"at": pod.ResourceVersion} })
	}
}

func listed(pod *v1.Pod) []leadership.ListedObject {
	return []leadership.ListedObject{{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: farVersion}}
}

func TestANewLeaderWaitsForWhatItHasNotSeen(t *testing.T) {
	stirred := func(env *testEnv) { env.advanceVersion() }
	for name, c := range map[string]struct {
		pods  []leadership.ListedObject
		nodes []leadership.ListedObject
		come  func(*testEnv)
	}{
		"a newer version of a pod":                {listed(webPod("b")), listedNodes("1"), stirred},
		"the deletion of a pod, by a later event": {listed(webPod("gone")), listedNodes("1"), stirred},
		"a newer version of a node": {nil, listedNodes(farVersion),
			func(env *testEnv) {
				newer := node("n")
				newer.ResourceVersion = farVersion
				if _, err := env.cluster.CoreV1().Nodes().Update(env.ctx, newer, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}},
		"the deletion of a node": {nil, listedNodes("1")[1:],
			func(env *testEnv) {
				if err := env.cluster.CoreV1().Nodes().Delete(env.ctx, "n", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.apply("one")
				env.setHandover(c.pods, c.nodes)
				defer env.startLeading()()
				time.Sleep(time.Minute)
				env.want("node of a before the informers synced", env.nodeOf("a"), "")
				c.come(env)
				time.Sleep(time.Second)
				if env.nodeOf("a") == "" {
					t.Error("no pod is scheduled after the informers synced")
				}
			}, node("n"), node("m"), webPod("a"), fixture.Pod("b").On("m").SchedulerName("p").Obj())
		})
	}
}

// bindLate sends an earlier leader's Binding for the version of the pod that it knew.
func (env *testEnv) bindLate(pod *v1.Pod, node string) error {
	return env.cluster.CoreV1().Pods(pod.Namespace).Bind(context.Background(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

func TestALateBindingOfAnEarlierLeaderFails(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.setHandover(nil, listedNodes("1"))
		known := env.cluster.Pod(webPod("a"))
		var late error
		env.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { late = env.bindLate(known, "elsewhere") }})
		defer env.startLeading()()
		if !apierrors.IsConflict(late) {
			t.Errorf("the late Binding returned %v", late)
		}
		env.want("node of a", env.nodeOf("a"), "n")
	}, node("n"), webPod("a"))
}

func TestANewLeaderWaitsForPodsThatWereBoundMeanwhile(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.setHandover(nil, listedNodes("1"))
		known := env.cluster.Pod(webPod("a"))
		env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
			if err := env.bindLate(known, "elsewhere"); err != nil {
				t.Error(err)
			}
		}})
		defer env.startLeading()()
		time.Sleep(time.Second)
		env.want("node of a", env.nodeOf("a"), "elsewhere")
		env.create(webPod("b"))
		env.want("node of b", env.nodeOf("b"), "n")
	}, node("n"), webPod("a"))
}

func TestANewLeaderWaitsForPodsThatCannotBeFenced(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.setHandover(nil, listedNodes("1"))
		env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(podKind.GroupResource(), "a", errors.New("by the test"))})
		defer env.startLeading()()
		time.Sleep(requestTimeout - time.Second)
		env.want("node of a while a Binding may be in flight", env.nodeOf("a"), "")
		time.Sleep(2 * time.Second)
		env.want("node of a a minute later", env.nodeOf("a"), "n")
	}, node("n"), webPod("a"))
}

func TestWhichPodsANewLeaderMarks(t *testing.T) {
	gated := fixture.Pod("gated").SchedulerName("p").Obj()
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
	runTest(t, func(env *testEnv) {
		env.setHandover(nil, listedNodes("1")) // no profile runs yet, as after a crash
		env.cluster.TakeCalls()
		defer env.startLeading()()
		env.wantPatched("a", "refused")
		synctest.Wait()
		env.want("condition of a", env.podScheduled("a"), "Unknown LeaderHandover: the scheduler with leader epoch 3 took over before the pod was tried")
		env.want("condition of refused", env.podScheduled("refused"), "False Unschedulable: why")
	}, node("n"), webPod("a"), gated, fixture.Pod("others").SchedulerName("q").Obj(), fixture.Pod("bound").SchedulerName("p").On("n").Obj(), podWithRefusal())
}

// wantPatched compares the pods that were patched since the calls were taken last, sorted.
func (env *testEnv) wantPatched(want ...string) {
	env.t.Helper()
	var patched []string
	for _, call := range env.cluster.TakeCalls() {
		if pod, is := strings.CutPrefix(call, "patch "); is {
			patched = append(patched, pod)
		}
	}
	slices.Sort(patched) // they are many at a time
	env.wantLines("patched", patched, want...)
}

// newJournal returns the journal of one process.
func newJournal(in *fakecluster.ConfigMaps, holder string) *journal.Journal {
	return journal.New(journal.Options{
		Client: in, Holder: holder, Clock: clock.RealClock{},
		Go: func(work func()) { go work() }, Wait: framework.Block, Log: logr.Discard(),
	})
}

func TestWhichPodsANewLeaderFences(t *testing.T) {
	elected := func(epoch int64) journal.Leadership {
		return journal.Leadership{Elected: true, Epoch: epoch, First: epoch == 0}
	}
	before := func(env *testEnv, in *fakecluster.ConfigMaps) {
		j := newJournal(in, "the one before")
		if _, ok := j.TakeOver(env.ctx, elected(6)); !ok {
			env.t.Error("the journal was not taken over")
		}
		j.Fenced(nil)
		time.Sleep(time.Second)
		for _, uid := range []types.UID{refusedPod("bound-late").UID, refusedPod("of-no-profile").UID, "gone"} {
			env.must(j.Commit(env.ctx, uid))
		}
	}
	for name, c := range map[string]struct {
		before func(env *testEnv, in *fakecluster.ConfigMaps)
		leads  journal.Leadership
		pods   []runtime.Object
		fenced []string
	}{
		"none at the first start": {nil, elected(0), nil, nil},
		"all when the Lease and the journal were deleted after another leader": {
			nil, elected(0), []runtime.Object{decidedPod()}, []string{"bound-late", "fresh", "refused"},
		},
		"all without a journal": {nil, elected(7), nil, []string{"bound-late", "fresh", "refused"}},
		"those without a condition, and those in the journal": {
			before, elected(7), nil, []string{"bound-late", "fresh", "of-no-profile"},
		},
		"all when the journal is not the previous leader's": {
			before, elected(8), nil, []string{"bound-late", "fresh", "of-no-profile", "refused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ofNoProfile := refusedPod("of-no-profile")
			ofNoProfile.Spec.SchedulerName = "deleted"
			pods := append(c.pods, node("n"), webPod("fresh"), refusedPod("refused"), refusedPod("bound-late"), ofNoProfile)
			runTest(t, func(env *testEnv) {
				maps := env.cluster.ConfigMaps()
				if c.before != nil {
					c.before(env, maps)
				}
				env.setHandover(nil, listedNodes("1")[:1])
				env.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) { return c.leads, nil }
				env.options.Handover.Journal = newJournal(maps, "this one")
				env.cluster.TakeCalls()
				defer env.startLeading()()
				time.Sleep(time.Second)
				env.wantPatched(c.fenced...)
			}, pods...)
		})
	}
}

// A leadership that ends after the informers synced has fenced no pod: the journal tells the
// next leader to fence every pod.
func TestAHandoverThatIsCutShortIsNotComplete(t *testing.T) {
	runTest(t, func(env *testEnv) {
		maps := env.cluster.ConfigMaps()
		env.setHandover(nil, listedNodes("1")[:1])
		list := env.options.Handover.List
		ctx, end := context.WithCancel(env.ctx)
		env.options.Handover.List = func(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, error) {
			if kind == nodeKind {
				end()
			}
			return list(ctx, kind, fields)
		}
		leads := func(epoch int64) journal.Leadership { return journal.Leadership{Elected: true, Epoch: epoch} }
		env.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) { return leads(7), nil }
		env.options.Handover.Journal = newJournal(maps, "this one")
		env.ctx = ctx
		env.startLeading()()
		if handover, _ := newJournal(maps, "the next one").TakeOver(context.Background(), leads(8)); handover.Fence != journal.FenceAll {
			t.Errorf("the next leader fences %q", handover.Fence)
		}
	}, node("n"), refusedPod("refused"))
}

// refusedPod returns a pending pod with PodScheduled=False.
func refusedPod(name string) *v1.Pod {
	pod := webPod(name)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "why"}}
	return pod
}

// decidedPod returns a pod that Berth bound.
func decidedPod() *v1.Pod {
	pod := fixture.Pod("decided").SchedulerName("p").On("n").Obj()
	pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: "{}"}
	return pod
}

// podWithRefusal returns a pending pod whose condition says why it is pending.
func podWithRefusal() *v1.Pod {
	pod := webPod("refused")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "why"}}
	return pod
}
