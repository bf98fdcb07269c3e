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

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

// far is a resource version that a cluster of a test has not come to.
const farVersion = "150"

// takesOver lets whoever leads find so much.
func (w *testEnv) setHandover(pods, nodes []leadership.ListedObject) {
	w.options.Handover = Handover{
		List: func(_ context.Context, kind schema.GroupVersionResource, _ string) (leadership.ObjectList, error) {
			if kind == podKind {
				return leadership.ObjectList{ResourceVersion: farVersion, Objects: pods}, nil
			}
			return leadership.ObjectList{ResourceVersion: farVersion, Objects: nodes}, nil
		},
		Profiles: func(context.Context) ([]string, error) { return []string{"p"}, nil },
	}
}

// listedNodes are n and m, as n was at a version.
func listedNodes(n string) []leadership.ListedObject {
	return []leadership.ListedObject{{Name: "n", UID: node("n").UID, ResourceVersion: n}, {Name: "m", UID: node("m").UID, ResourceVersion: "1"}}
}

// stir changes the pod b until the cluster has come as far as far.
func (w *testEnv) advanceVersion() {
	for b := webPod("b"); w.cluster.Pod(b).ResourceVersion < farVersion; {
		w.cluster.UpdatePod(b, func(pod *v1.Pod) { pod.Labels = map[string]string{"at": pod.ResourceVersion} })
	}
}

func listed(pod *v1.Pod) []leadership.ListedObject {
	return []leadership.ListedObject{{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: farVersion}}
}

func TestANewLeaderWaitsForWhatItHasNotSeen(t *testing.T) {
	stirred := func(w *testEnv) { w.advanceVersion() }
	for sentence, c := range map[string]struct {
		pods  []leadership.ListedObject
		nodes []leadership.ListedObject
		come  func(*testEnv)
	}{
		"a newer version of a pod":         {listed(webPod("b")), listedNodes("1"), stirred},
		"a pod that went, as what follows": {listed(webPod("gone")), listedNodes("1"), stirred},
		"a newer version of a node": {nil, listedNodes(farVersion),
			func(w *testEnv) {
				newer := node("n")
				newer.ResourceVersion = farVersion
				if _, err := w.cluster.CoreV1().Nodes().Update(w.ctx, newer, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}},
		"that a node is gone": {nil, listedNodes("1")[1:],
			func(w *testEnv) {
				if err := w.cluster.CoreV1().Nodes().Delete(w.ctx, "n", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.apply("one")
				w.setHandover(c.pods, c.nodes)
				defer w.startLeading()()
				time.Sleep(time.Minute)
				w.want("a goes, before it is known, to", w.nodeOf("a"), "")
				c.come(w)
				time.Sleep(time.Second)
				if w.nodeOf("a") == "" {
					t.Error("nothing is decided when all is known")
				}
			}, node("n"), node("m"), webPod("a"), fixture.Pod("b").On("m").SchedulerName("p").Obj())
		})
	}
}

// bindsLate is an earlier leader's Binding, of the pod as that knew it.
func (w *testEnv) bindLate(pod *v1.Pod, node string) error {
	return w.cluster.CoreV1().Pods(pod.Namespace).Bind(context.Background(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

func TestALateBindingOfAnEarlierLeaderFails(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.setHandover(nil, listedNodes("1"))
		known := w.cluster.Pod(webPod("a"))
		var late error
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { late = w.bindLate(known, "elsewhere") }})
		defer w.startLeading()()
		if !apierrors.IsConflict(late) {
			t.Errorf("the late Binding was answered with %v", late)
		}
		w.want("a is on", w.nodeOf("a"), "n")
	}, node("n"), webPod("a"))
}

func TestANewLeaderWaitsForPodsThatWereBoundMeanwhile(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.setHandover(nil, listedNodes("1"))
		known := w.cluster.Pod(webPod("a"))
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
			if err := w.bindLate(known, "elsewhere"); err != nil {
				t.Error(err)
			}
		}})
		defer w.startLeading()()
		time.Sleep(time.Second)
		w.want("a is on", w.nodeOf("a"), "elsewhere")
		w.create(webPod("b"))
		w.want("b is on", w.nodeOf("b"), "n")
	}, node("n"), webPod("a"))
}

func TestANewLeaderWaitsForPodsThatCannotBeFenced(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.setHandover(nil, listedNodes("1"))
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(podKind.GroupResource(), "a", errors.New("by the test"))})
		defer w.startLeading()()
		time.Sleep(requestTimeout - time.Second)
		w.want("while a Binding may be under way a is on", w.nodeOf("a"), "")
		time.Sleep(2 * time.Second)
		w.want("a minute later a is on", w.nodeOf("a"), "n")
	}, node("n"), webPod("a"))
}

func TestWhichPodsANewLeaderMarks(t *testing.T) {
	gated := fixture.Pod("gated").SchedulerName("p").Obj()
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
	runTest(t, func(w *testEnv) {
		w.setHandover(nil, listedNodes("1")) // no profile runs yet: who leads first after a crash
		w.cluster.TakeCalls()
		defer w.startLeading()()
		var patched []string
		for _, call := range w.cluster.TakeCalls() {
			if pod, is := strings.CutPrefix(call, "patch "); is {
				patched = append(patched, pod)
			}
		}
		slices.Sort(patched) // they are many at a time
		w.wantLines("patched", patched, "a", "told")
		synctest.Wait()
		w.want("a says", w.podScheduled("a"), "Unknown LeaderHandover: the scheduler with leader epoch 3 took over before the pod was tried")
		w.want("told says", w.podScheduled("told"), "False Unschedulable: why")
	}, node("n"), webPod("a"), gated, fixture.Pod("others").SchedulerName("q").Obj(), fixture.Pod("bound").SchedulerName("p").On("n").Obj(), podWithRefusal())
}

// process is the journal of a process.
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
	before := func(w *testEnv, in *fakecluster.ConfigMaps) {
		j := newJournal(in, "the one before")
		if _, ok := j.TakeOver(w.ctx, elected(6)); !ok {
			w.t.Error("the journal was not taken over")
		}
		j.Fenced(nil)
		time.Sleep(time.Second)
		for _, uid := range []types.UID{refusedPod("bound-late").UID, refusedPod("of-no-profile").UID, "gone"} {
			w.must(j.Commit(w.ctx, uid))
		}
	}
	for sentence, c := range map[string]struct {
		before func(w *testEnv, in *fakecluster.ConfigMaps)
		leads  journal.Leadership
		pods   []runtime.Object
		fenced []string
	}{
		"none at the first start": {nil, elected(0), nil, nil},
		"all where the Lease and the journal are gone, and a leader was here": {
			nil, elected(0), []runtime.Object{decidedPod()}, []string{"bound-late", "fresh", "told"},
		},
		"all where there is no journal": {nil, elected(7), nil, []string{"bound-late", "fresh", "told"}},
		"those without a refusal, and those in the journal": {
			before, elected(7), nil, []string{"bound-late", "fresh", "of-no-profile"},
		},
		"all where the journal is not of the leader before": {
			before, elected(8), nil, []string{"bound-late", "fresh", "of-no-profile", "told"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			ofNoProfile := refusedPod("of-no-profile")
			ofNoProfile.Spec.SchedulerName = "deleted"
			pods := append(c.pods, node("n"), webPod("fresh"), refusedPod("told"), refusedPod("bound-late"), ofNoProfile)
			runTest(t, func(w *testEnv) {
				maps := w.cluster.ConfigMaps()
				if c.before != nil {
					c.before(w, maps)
				}
				w.setHandover(nil, listedNodes("1")[:1])
				w.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) { return c.leads, nil }
				w.options.Handover.Journal = newJournal(maps, "this one")
				w.cluster.TakeCalls()
				defer w.startLeading()()
				time.Sleep(time.Second)
				var patched []string
				for _, call := range w.cluster.TakeCalls() {
					if pod, is := strings.CutPrefix(call, "patch "); is {
						patched = append(patched, pod)
					}
				}
				slices.Sort(patched)
				w.wantLines("patched", patched, c.fenced...)
			}, pods...)
		})
	}
}

// A leadership that ends after the informers caught up has fenced nobody: the next
// leader finds in the journal that it is to fence every pod.
func TestAHandoverThatIsCutShortIsNotComplete(t *testing.T) {
	runTest(t, func(w *testEnv) {
		maps := w.cluster.ConfigMaps()
		w.setHandover(nil, listedNodes("1")[:1])
		list := w.options.Handover.List
		ctx, end := context.WithCancel(w.ctx)
		w.options.Handover.List = func(ctx context.Context, kind schema.GroupVersionResource, fields string) (leadership.ObjectList, error) {
			if kind == nodeKind {
				end()
			}
			return list(ctx, kind, fields)
		}
		leads := func(epoch int64) journal.Leadership { return journal.Leadership{Elected: true, Epoch: epoch} }
		w.options.Handover.Leadership = func(context.Context) (journal.Leadership, error) { return leads(7), nil }
		w.options.Handover.Journal = newJournal(maps, "this one")
		w.ctx = ctx
		w.startLeading()()
		if told, _ := newJournal(maps, "the next one").TakeOver(context.Background(), leads(8)); told.Fence != journal.FenceAll {
			t.Errorf("the next leader fences %q", told.Fence)
		}
	}, node("n"), refusedPod("told"))
}

// refusedPod is a pod that waits and says PodScheduled=False.
func refusedPod(name string) *v1.Pod {
	pod := webPod(name)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "why"}}
	return pod
}

// decidedPod is a pod that Berth has bound.
func decidedPod() *v1.Pod {
	pod := fixture.Pod("decided").SchedulerName("p").On("n").Obj()
	pod.Annotations = map[string]string{decision.AnnotationKey: "{}"}
	return pod
}

// saying is a pod that says already why it waits.
func podWithRefusal() *v1.Pod {
	pod := webPod("told")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "why"}}
	return pod
}
