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
	"github.com/berthdev/berth/scheduler/tenure"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

// far is a resource version that a cluster of a test has not come to.
const far = "150"

// takesOver lets whoever leads find so much.
func (w *world) takesOver(pods, nodes []tenure.Listed) {
	w.options.Takeover = Takeover{
		Call: func(_ context.Context, kind schema.GroupVersionResource, _ string) (tenure.Roll, error) {
			if kind == podKind {
				return tenure.Roll{Version: far, Objects: pods}, nil
			}
			return tenure.Roll{Version: far, Objects: nodes}, nil
		},
		Profiles: func(context.Context) ([]string, error) { return []string{"p"}, nil },
	}
}

// listedNodes are n and m, as n was at a version.
func listedNodes(n string) []tenure.Listed {
	return []tenure.Listed{{Name: "n", UID: node("n").UID, Version: n}, {Name: "m", UID: node("m").UID, Version: "1"}}
}

// stir changes the pod b until the cluster has come as far as far.
func (w *world) stir() {
	for b := web("b"); w.cluster.Pod(b).ResourceVersion < far; {
		w.cluster.Change(b, func(pod *v1.Pod) { pod.Labels = map[string]string{"at": pod.ResourceVersion} })
	}
}

func listed(pod *v1.Pod) []tenure.Listed {
	return []tenure.Listed{{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Version: far}}
}

func TestANewLeaderWaitsForWhatItHasNotSeen(t *testing.T) {
	stirred := func(w *world) { w.stir() }
	for sentence, c := range map[string]struct {
		pods  []tenure.Listed
		nodes []tenure.Listed
		come  func(*world)
	}{
		"a newer version of a pod":         {listed(web("b")), listedNodes("1"), stirred},
		"a pod that went, as what follows": {listed(web("gone")), listedNodes("1"), stirred},
		"a newer version of a node": {nil, listedNodes(far),
			func(w *world) {
				newer := node("n")
				newer.ResourceVersion = far
				if _, err := w.cluster.CoreV1().Nodes().Update(w.ctx, newer, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}},
		"that a node is gone": {nil, listedNodes("1")[1:],
			func(w *world) {
				if err := w.cluster.CoreV1().Nodes().Delete(w.ctx, "n", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.apply("one")
				w.takesOver(c.pods, c.nodes)
				defer w.lead()()
				time.Sleep(time.Minute)
				w.want("a goes, before it is known, to", w.on("a"), "")
				c.come(w)
				time.Sleep(time.Second)
				if w.on("a") == "" {
					t.Error("nothing is decided when all is known")
				}
			}, node("n"), node("m"), web("a"), fixture.Pod("b").On("m").Scheduler("p").Obj())
		})
	}
}

// bindsLate is an earlier leader's Binding, of the pod as that knew it.
func (w *world) bindsLate(pod *v1.Pod, node string) error {
	return w.cluster.CoreV1().Pods(pod.Namespace).Bind(context.Background(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

func TestALateBindingOfAnEarlierLeaderFails(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply("one")
		w.takesOver(nil, listedNodes("1"))
		known := w.cluster.Pod(web("a"))
		var late error
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { late = w.bindsLate(known, "elsewhere") }})
		defer w.lead()()
		if !apierrors.IsConflict(late) {
			t.Errorf("the late Binding was answered with %v", late)
		}
		w.want("a is on", w.on("a"), "n")
	}, node("n"), web("a"))
}

func TestWhatWasBoundWhileItWasTakenOverIsWaitedFor(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply("one")
		w.takesOver(nil, listedNodes("1"))
		known := w.cluster.Pod(web("a"))
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
			if err := w.bindsLate(known, "elsewhere"); err != nil {
				t.Error(err)
			}
		}})
		defer w.lead()()
		time.Sleep(time.Second)
		w.want("a is on", w.on("a"), "elsewhere")
		w.create(web("b"))
		w.want("b is on", w.on("b"), "n")
	}, node("n"), web("a"))
}

func TestPodsThatCannotBeMarkedAreWaitedFor(t *testing.T) {
	inTime(t, func(w *world) {
		w.apply("one")
		w.takesOver(nil, listedNodes("1"))
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewForbidden(podKind.GroupResource(), "a", errors.New("by the test"))})
		defer w.lead()()
		time.Sleep(requestTimeout - time.Second)
		w.want("while a Binding may be under way a is on", w.on("a"), "")
		time.Sleep(2 * time.Second)
		w.want("a minute later a is on", w.on("a"), "n")
	}, node("n"), web("a"))
}

func TestWhomANewLeaderMarks(t *testing.T) {
	gated := fixture.Pod("gated").Scheduler("p").Obj()
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
	inTime(t, func(w *world) {
		w.takesOver(nil, listedNodes("1")) // no profile runs yet: who leads first after a crash
		w.cluster.Take()
		defer w.lead()()
		var patched []string
		for _, call := range w.cluster.Take() {
			if pod, is := strings.CutPrefix(call, "patch "); is {
				patched = append(patched, pod)
			}
		}
		slices.Sort(patched) // they are many at a time
		w.wantLines("patched", patched, "a", "told")
		synctest.Wait()
		w.want("a says", w.scheduled("a"), "Unknown TakenOver: the scheduler of epoch 3 took over before the pod was tried")
		w.want("told says", w.scheduled("told"), "False Unschedulable: why")
	}, node("n"), web("a"), gated, fixture.Pod("others").Scheduler("q").Obj(), fixture.Pod("bound").Scheduler("p").On("n").Obj(), saying())
}

// process is the journal of a process.
func process(in *fakecluster.ConfigMaps, holder string) *journal.Journal {
	return journal.New(journal.Options{
		Client: in, Holder: holder, Clock: clock.RealClock{},
		Go: func(work func()) { go work() }, Wait: framework.Block, Log: logr.Discard(),
	})
}

func TestWhichPodsANewLeaderFences(t *testing.T) {
	elected := func(epoch int64) journal.Leadership {
		return journal.Leadership{Elected: true, Epoch: epoch, First: epoch == 0}
	}
	before := func(w *world, in *fakecluster.ConfigMaps) {
		j := process(in, "the one before")
		if _, ok := j.Take(w.ctx, elected(6)); !ok {
			w.t.Error("the journal was not taken over")
		}
		j.Fenced(nil)
		time.Sleep(time.Second)
		for _, uid := range []types.UID{refusedPod("bound-late").UID, refusedPod("of-no-profile").UID, "gone"} {
			w.must(j.Commit(w.ctx, uid))
		}
	}
	for sentence, c := range map[string]struct {
		before func(w *world, in *fakecluster.ConfigMaps)
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
			pods := append(c.pods, node("n"), web("fresh"), refusedPod("told"), refusedPod("bound-late"), ofNoProfile)
			inTime(t, func(w *world) {
				maps := w.cluster.ConfigMaps()
				if c.before != nil {
					c.before(w, maps)
				}
				w.takesOver(nil, listedNodes("1")[:1])
				w.options.Takeover.Leadership = func(context.Context) (journal.Leadership, error) { return c.leads, nil }
				w.options.Takeover.Journal = process(maps, "this one")
				w.cluster.Take()
				defer w.lead()()
				time.Sleep(time.Second)
				var patched []string
				for _, call := range w.cluster.Take() {
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
func TestATakeoverThatIsCutShortIsNotOver(t *testing.T) {
	inTime(t, func(w *world) {
		maps := w.cluster.ConfigMaps()
		w.takesOver(nil, listedNodes("1")[:1])
		list := w.options.Takeover.Call
		ctx, end := context.WithCancel(w.ctx)
		w.options.Takeover.Call = func(ctx context.Context, kind schema.GroupVersionResource, fields string) (tenure.Roll, error) {
			if kind == nodeKind {
				end()
			}
			return list(ctx, kind, fields)
		}
		leads := func(epoch int64) journal.Leadership { return journal.Leadership{Elected: true, Epoch: epoch} }
		w.options.Takeover.Leadership = func(context.Context) (journal.Leadership, error) { return leads(7), nil }
		w.options.Takeover.Journal = process(maps, "this one")
		w.ctx = ctx
		w.lead()()
		if told, _ := process(maps, "the next one").Take(context.Background(), leads(8)); told.Fence != journal.FenceAll {
			t.Errorf("the next leader fences %q", told.Fence)
		}
	}, node("n"), refusedPod("told"))
}

// refusedPod is a pod that waits and says PodScheduled=False.
func refusedPod(name string) *v1.Pod {
	pod := web(name)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "why"}}
	return pod
}

// decidedPod is a pod that Berth has bound.
func decidedPod() *v1.Pod {
	pod := fixture.Pod("decided").Scheduler("p").On("n").Obj()
	pod.Annotations = map[string]string{decision.AnnotationKey: "{}"}
	return pod
}

// saying is a pod that says already why it waits.
func saying() *v1.Pod {
	pod := web("told")
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "why"}}
	return pod
}
