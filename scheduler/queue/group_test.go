package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/test/support/fixture"
)

// groupEnv is a testEnv whose profile schedules groups. A group of fewer pods than it wants
// is gated, as by the plugin GangScheduling.
type groupEnv struct {
	*testEnv
	groups *podgroups.Store
}

var (
	podAdd         = fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}
	podAssigned    = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}
	podGroupUpdate = fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}
)

func newGroupEnv(t *testing.T) *groupEnv {
	w := &groupEnv{newTestEnv(t), podgroups.NewStore()}
	w.Queue = New(Options{Clock: w.clock, Groups: w.groups})
	w.rules.Groups = true
	w.rules.Key = ProfileKey{Plugins: map[string]string{}}
	w.rules.PreEnqueue = func(_ context.Context, pod *v1.Pod, _ string) string {
		if w.closedGates.Has(pod.Name) {
			return "Gate"
		}
		if quorum, ok := w.groups.QuorumOf(pod); w.rules.Groups && ok && (!quorum.Known || quorum.All < quorum.MinCount) {
			return "GangScheduling"
		}
		return ""
	}
	for _, e := range []fwk.ClusterEvent{podAdd, podAssigned, podGroupUpdate} {
		w.rules.Hints = append(w.rules.Hints, Hint{Plugin: "GangScheduling", Event: e, OwnGroup: true})
	}
	w.setProfile()
	return w
}

// member returns a pod of group g, which wants minCount pods.
func member(name string, minCount int) *v1.Pod {
	p := pod(name)
	p.Annotations = map[string]string{v1alpha1.AnnotationPodGroup: "g", v1alpha1.AnnotationPodGroupMinCount: fmt.Sprint(minCount)}
	return p
}

// addPods adds pods as the event handlers do.
func (w *groupEnv) addPods(pods ...*v1.Pod) {
	for _, p := range pods {
		w.groups.SetPod(p)
		w.Add(w.ctx, p)
		w.Event(w.ctx, podAdd, nil, p, nil)
	}
}

// popGroup begins the attempt of the next entity, which must be a group of these pods.
func (w *groupEnv) popGroup(names ...string) *Attempt {
	w.t.Helper()
	a := w.TryPop()
	if a == nil || a.Group == nil {
		w.t.Fatalf("popped %v, want a group of %v", a, names)
	}
	if diff := cmp.Diff(names, memberNames(a)); diff != "" {
		w.t.Fatalf("the group's pods (-want +got):\n%s", diff)
	}
	return a
}

func memberNames(a *Attempt) []string {
	var names []string
	for _, m := range a.Group.Members {
		names = append(names, m.Pod.Name)
	}
	return names
}

// refuse ends the attempts of all members by a refusal, and that of the group with result.
func (w *groupEnv) refuse(a *Attempt, result GroupResult) {
	for _, m := range a.Group.Members {
		m.Refused(w.ctx, sets.New("Fit"), nil)
	}
	a.FinishGroup(w.ctx, result)
}

func (w *groupEnv) expectNothing() {
	w.t.Helper()
	if a := w.TryPop(); a != nil {
		w.t.Fatalf("popped %v, want nothing", a)
	}
}

func TestAGroupWaitsAsOne(t *testing.T) {
	for name, test := range map[string]func(w *groupEnv){
		"a group is gated until it has as many pods as it wants, and is popped as one, in kube-scheduler's order": func(w *groupEnv) {
			w.addPods(member("b", 3), member("c", 3))
			w.expectAt(Gated, "b", "c")
			w.expectNothing()
			w.addPods(member("a", 3))
			w.expectAt(Active, "a", "b", "c")
			w.popGroup("a", "b", "c")
			w.expectAt(InFlight, "a", "b", "c")
		},
		"groups and pods are in one order": func(w *groupEnv) {
			high := member("high", 1)
			high.Spec.Priority = new(int32(5))
			w.addPods(podWithPriority("low", 1), high, podWithPriority("higher", 9))
			w.pop("higher")
			w.popGroup("high")
			w.pop("low")
		},
		"one gated member gates all, and its event wakes all": func(w *groupEnv) {
			w.closedGates.Insert("a")
			w.addPods(member("a", 2), member("b", 2))
			w.expectAt(Gated, "a", "b")
			w.closedGates.Delete("a")
			w.nodeEvent(nodeLabel, "any")
			w.expectAt(Active, "a", "b")
		},
		"a refused group backs off for as long as kube-scheduler says, and is not popped early": func(w *groupEnv) {
			w.addPods(member("a", 2), member("b", 2))
			for range 5 {
				w.refuse(w.popGroup("a", "b"), GroupUnschedulable)
				w.expectAt(Backoff, "a", "b")
				w.expectNothing()
				w.advance(15 * time.Second)
			}
			w.refuse(w.popGroup("a", "b"), GroupUnschedulable)
			w.advance(13 * time.Second) // MaxBackoff times the square root of two is 14.1 s
			w.expectAt(Backoff, "a", "b")
			w.advance(2 * time.Second)
			w.popGroup("a", "b")
		},
		"a pod that comes during an attempt waits for its end": func(w *groupEnv) {
			w.addPods(member("a", 1))
			a := w.popGroup("a")
			w.addPods(member("b", 1))
			w.expectNothing()
			a.Group.Members[0].Done()
			a.FinishGroup(w.ctx, GroupScheduled)
			w.popGroup("b")
		},
		"the pods that are left of a group that was scheduled keep their turn": func(w *groupEnv) {
			w.addPods(member("a", 1), member("b", 1))
			w.clock.Step(time.Second)
			w.addPods(pod("later"))
			a := w.popGroup("a", "b")
			a.Group.Members[0].Done()
			w.clock.Step(time.Second)
			a.Group.Members[1].Refused(w.ctx, sets.New("Fit"), nil)
			a.FinishGroup(w.ctx, GroupScheduled)
			w.popGroup("b")
			w.pop("later")
		},
		"a group whose pods all have nodes is forgotten": func(w *groupEnv) {
			w.addPods(member("a", 1))
			a := w.popGroup("a")
			a.Group.Members[0].Done()
			a.FinishGroup(w.ctx, GroupScheduled)
			if len(w.podGroups) != 0 || len(w.pods) != 0 {
				w.t.Errorf("%d groups and %d pods are left", len(w.podGroups), len(w.pods))
			}
		},
		"a pod that fails after its group's attempt is tried again as a group, after a backoff": func(w *groupEnv) {
			w.addPods(member("a", 2), member("b", 2))
			a := w.popGroup("a", "b")
			a.FinishGroup(w.ctx, GroupScheduled)
			a.Group.Members[0].Done()
			a.Group.Members[1].Failed(w.ctx)
			w.expectAt(Backoff, "b")
			w.advance(15 * time.Second)
			w.popGroup("b")
		},
		"a pod that was in flight when its profile began to schedule groups, and fails again and again, backs off each time": func(w *groupEnv) {
			w.rules.Groups, w.rules.Hash = false, "without"
			w.setProfile()
			w.addPods(member("a", 1))
			a := w.pop("a")
			w.rules.Groups, w.rules.Hash = true, "with"
			w.setProfile()
			a.Failed(w.ctx) // under the rules before, so that it is tried at once
			for range 3 {
				group := w.popGroup("a")
				group.FinishGroup(w.ctx, GroupScheduled)
				group.Group.Members[0].Failed(w.ctx)
				w.expectAt(Backoff, "a")
				w.advance(15 * time.Second)
			}
		},
		"pods whose Bindings fail before their group's attempt ends back off": func(w *groupEnv) {
			w.addPods(member("a", 1), member("b", 1))
			for range 3 {
				a := w.popGroup("a", "b")
				for _, m := range a.Group.Members {
					m.SetBindingBegan()
					m.Failed(w.ctx)
				}
				a.FinishGroup(w.ctx, GroupScheduled)
				w.expectAt(Backoff, "a", "b")
				w.expectNothing()
				w.advance(15 * time.Second)
			}
		},
		"pods that join a group, or leave it, change nothing about its backoff": func(w *groupEnv) {
			w.addPods(member("a", 1))
			for range 5 {
				w.refuse(w.popGroup("a"), GroupUnschedulable)
				w.advance(11 * time.Second)
			}
			w.refuse(w.popGroup("a"), GroupUnschedulable)
			w.addPods(member("b", 1), member("c", 1), member("d", 1))
			w.advance(9 * time.Second)
			w.expectAt(Backoff, "a", "b", "c", "d")
			w.advance(2 * time.Second) // the longest backoff of one pod is 10 s
			w.refuse(w.popGroup("a", "b", "c", "d"), GroupUnschedulable)
			for _, name := range []string{"b", "c", "d"} {
				w.groups.RemovePod(member(name, 1))
				w.Delete(member(name, 1).UID)
			}
			w.advance(19 * time.Second) // that of four is 20 s
			w.expectAt(Backoff, "a")
			w.advance(2 * time.Second)
			w.popGroup("a")
		},
		"a member that is deleted leaves, and too few are gated again": func(w *groupEnv) {
			pods := []*v1.Pod{member("a", 2), member("b", 2)}
			w.addPods(pods...)
			w.groups.RemovePod(pods[0])
			w.Delete(pods[0].UID)
			w.expectAt(Gated, "b")
			w.groups.RemovePod(pods[1])
			w.Delete(pods[1].UID)
			if len(w.podGroups) != 0 {
				w.t.Errorf("%d groups are left", len(w.podGroups))
			}
		},
		"the gated member is deleted, and the others go on": func(w *groupEnv) {
			w.closedGates.Insert("a")
			a := member("a", 1)
			w.addPods(a, member("b", 1))
			w.groups.RemovePod(a)
			w.Delete(a.UID)
			w.popGroup("b")
		},
		"the gated member is deleted while its group is requeued, and the others go on": func(w *groupEnv) {
			a, changed := member("a", 1), member("a", 1)
			changed.Labels = map[string]string{"changed": ""}
			w.rules.Hints = append(w.rules.Hints, Hint{Plugin: "Fit", Event: podLabels, Fn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
				w.groups.RemovePod(changed)
				w.Delete(a.UID)
				return fwk.QueueSkip, nil
			}})
			w.setProfile()
			w.addPods(a, member("b", 1))
			w.refuse(w.popGroup("a", "b"), GroupUnschedulable)
			w.closedGates.Insert("a")
			w.advance(15 * time.Second)
			w.expectAt(Gated, "a", "b")
			w.Update(w.ctx, a, changed, podLabel)
			w.expectAt(Active, "b")
		},
		"a member that names no group any more waits on its own": func(w *groupEnv) {
			a := member("a", 1)
			w.addPods(a, member("b", 1))
			alone := a.DeepCopy()
			alone.Annotations, alone.Labels = nil, map[string]string{"changed": ""}
			w.groups.RemovePod(a)
			alone.Spec.Priority = new(int32(1))
			w.Update(w.ctx, a, alone, podLabel)
			w.pop("a")
			w.popGroup("b")
		},
		"a group that the flush woke has pods that it woke, in that attempt alone": func(w *groupEnv) {
			w.closedGates.Insert("a")
			w.addPods(member("a", 2), member("b", 2))
			w.closedGates.Delete("a") // no event tells
			w.advance(w.rules.FlushAfter + time.Second)
			for _, flushed := range []bool{true, false} {
				group := w.popGroup("a", "b")
				for _, m := range group.Group.Members {
					if m.Flushed() != flushed {
						w.t.Errorf("pod %s: flushed %v, want %v", m.Pod.Name, m.Flushed(), flushed)
					}
				}
				w.refuse(group, GroupUnschedulable)
				w.advance(15 * time.Second)
			}
		},
		"a pod that names no group any more when it fails after its group's attempt is woken by what came meanwhile": func(w *groupEnv) {
			a := member("a", 1)
			w.addPods(a)
			group := w.popGroup("a")
			group.FinishGroup(w.ctx, GroupScheduled) // it waits at Permit
			w.groups.RemovePod(a)
			w.Update(w.ctx, a, pod("a"), podLabel)
			w.nodeEvent(nodeAdd, "n")
			group.Group.Members[0].Refused(w.ctx, sets.New("Fit"), nil)
			w.expectAt(Backoff, "a")
			w.advance(15 * time.Second)
			w.pop("a")
		},
		"a pod that names no group any more when its group's attempt does not take place waits on its own": func(w *groupEnv) {
			a := member("a", 1)
			w.addPods(a, member("b", 1))
			group := w.popGroup("a", "b")
			w.groups.RemovePod(a)
			w.Update(w.ctx, a, podWithPriority("a", -1), podLabel)
			group.Return(w.ctx)
			w.expectAt(Active, "a", "b")
			w.popGroup("b")
			if a := w.pop("a"); a.Count != 1 {
				w.t.Errorf("attempt %d of the pod, want the first", a.Count)
			}
		},
		"a pod that names another group when its group's attempt does not take place joins that one": func(w *groupEnv) {
			a, moved := member("a", 1), member("a", 1)
			moved.Annotations[v1alpha1.AnnotationPodGroup] = "other"
			w.addPods(a)
			group := w.popGroup("a")
			w.groups.RemovePod(a)
			w.groups.SetPod(moved)
			w.Update(w.ctx, a, moved, podLabel)
			group.Return(w.ctx)
			if key := w.popGroup("a").Group.Key.Name; key != "other" || len(w.podGroups) != 1 {
				w.t.Errorf("the group is %q, one of %d", key, len(w.podGroups))
			}
		},
		"a pod that names a group joins it": func(w *groupEnv) {
			a := pod("a")
			w.addPods(a, member("b", 1))
			joined := member("a", 1)
			w.groups.SetPod(joined)
			w.Update(w.ctx, a, joined, podLabel)
			w.popGroup("a", "b")
		},
		"an attempt that did not take place does not count": func(w *groupEnv) {
			w.addPods(member("a", 2), member("b", 2))
			w.popGroup("a", "b").Return(w.ctx)
			if a := w.popGroup("a", "b"); a.Count != 1 || a.Group.Members[0].Count != 1 {
				w.t.Errorf("attempt %d of the group and %d of the pod, want 1 and 1", a.Count, a.Group.Members[0].Count)
			}
		},
		"a profile that stops to schedule groups tries their pods one by one, and the other way round": func(w *groupEnv) {
			w.addPods(member("a", 3), member("b", 3))
			w.expectAt(Gated, "a", "b")
			w.rules.Groups, w.rules.Hash = false, "without"
			w.setProfile()
			w.expectAt(Active, "a", "b")
			w.pop("a").Refused(w.ctx, sets.New("Fit"), nil)
			b := w.pop("b")
			w.rules.Groups, w.rules.Hash = true, "with"
			w.setProfile()
			w.expectAt(Gated, "a")
			b.Failed(w.ctx)
			w.expectAt(Gated, "a", "b")
			w.addPods(member("c", 3))
			w.popGroup("a", "b", "c")
		},
		"the pods of a deleted profile are held, and go on as a group when it is back": func(w *groupEnv) {
			w.addPods(member("a", 2), member("b", 2))
			w.RemoveProfile("p", Hold{Reason: ProfileDeleted, Message: "gone"})
			w.expectAt(Held, "a", "b")
			if holds := w.takeHolds(); len(holds) != 2 {
				w.t.Errorf("held: %v, want both pods", holds)
			}
			w.setProfile()
			w.popGroup("a", "b")
		},
		"a pod of an incomplete group is reported as gated, and the first again": func(w *groupEnv) {
			expect := func(gated int, want ...string) {
				w.t.Helper()
				var got []string
				for _, c := range w.TakeHoldChanges() {
					got = append(got, fmt.Sprintf("%s: %s gates %s", c.Pod.Name, c.Gate, c.GatedMember.Name))
				}
				if !slices.Equal(got, want) {
					w.t.Errorf("changes: %q, want %q", got, want)
				}
				if c := w.Counts("p"); c.Gated != gated {
					w.t.Errorf("counts: %+v, want %d gated pods", c, gated)
				}
			}
			w.addPods(member("a", 4))
			expect(1, "a: GangScheduling gates a")
			w.addPods(member("b", 4))
			expect(2, "a: GangScheduling gates a", "b: GangScheduling gates a")
			w.addPods(member("c", 4))
			expect(3, "a: GangScheduling gates a", "c: GangScheduling gates a")
			w.groups.RemovePod(member("c", 4))
			w.Delete(member("c", 4).UID)
			expect(2, "a: GangScheduling gates a")
		},
		"a pod that was held before it joined an incomplete group shows the gate in place of the hold": func(w *groupEnv) {
			w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
			w.HoldProfile("p", Hold{Reason: ProfileNotRunning})
			w.addPods(member("a", 3), member("b", 3))
			w.TakeHoldChanges()
			w.setProfile()
			w.expectAt(Gated, "a", "b")
			for _, c := range w.TakeHoldChanges() {
				if !c.ConditionStale {
					w.t.Errorf("the condition of %s counts as up to date", c.Pod.Name)
				}
			}
			w.addPods(member("c", 4))
			for _, c := range w.TakeHoldChanges() {
				if c.ConditionStale {
					w.t.Errorf("the condition of %s counts as stale again", c.Pod.Name)
				}
			}
		},
		"Activate of one member activates the group": func(w *groupEnv) {
			a := member("a", 2)
			w.addPods(a, member("b", 2))
			w.refuse(w.popGroup("a", "b"), GroupUnschedulable)
			w.Activate(w.ctx, map[string]*v1.Pod{"a": a})
			w.popGroup("a", "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupEnv(t)
			test(w)
			w.check()
		})
	}
}

// TestPodGroupsOrderTheirPods has native PodGroups, whose priorities order them, and which may
// come after their pods, go, and come again.
func TestPodGroupsOrderTheirPods(t *testing.T) {
	w := newGroupEnv(t)
	native := func(name, group string) *v1.Pod {
		return fixture.Pod(name).SchedulerName("p").Mutate(func(p *v1.Pod) {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		}).Obj()
	}
	set := func(name string, priority int32) {
		podGroup := &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: schedulingv1beta1.PodGroupSpec{
				Priority:         &priority,
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}},
			},
		}
		w.groups.SetPodGroup(podgroups.Native, podGroup)
		w.PodGroupChanged(podgroups.KeyOfPodGroup(podGroup))
		w.Event(w.ctx, podGroupUpdate, podGroup, podGroup, nil)
	}
	w.addPods(native("a", "low"), native("b", "high"))
	w.expectAt(Gated, "a", "b")
	set("low", 1)
	set("high", 2)
	w.expectAt(Active, "a", "b")
	key := podgroups.Key{Source: podgroups.Native, Namespace: "default", Name: "high"}
	w.groups.RemovePodGroup(key)
	w.PodGroupDeleted(w.ctx, key)
	w.expectAt(Gated, "b")
	set("high", 3)
	if first, second := w.popGroup("b"), w.popGroup("a"); first.Count != 1 || second.Count != 1 {
		t.Errorf("attempts %d and %d, want the first of each", first.Count, second.Count)
	}

	// The PodGroup is deleted while its pod is in flight.
	set("gone", 4)
	w.addPods(native("c", "gone"))
	for range 3 {
		w.refuse(w.popGroup("c"), GroupUnschedulable)
		w.advance(5 * time.Second)
	}
	attempt := w.popGroup("c")
	key.Name = "gone"
	w.groups.RemovePodGroup(key)
	w.PodGroupDeleted(w.ctx, key)
	w.refuse(attempt, GroupUnschedulable)
	w.expectAt(Gated, "c")
	set("gone", 4)
	if attempt := w.popGroup("c"); attempt.Count != 1 {
		t.Errorf("attempt %d, want the first", attempt.Count)
	}
}

func TestMembersAreOrdered(t *testing.T) {
	w := newGroupEnv(t)
	w.addPods(member("later", 1), member("b", 1))
	// A pod that was tried before comes first.
	w.refuse(w.popGroup("b", "later"), GroupUnschedulable)
	w.addPods(member("a", 1))
	w.advance(time.Minute)
	names := memberNames(w.TryPop())
	if want := []string{"b", "later", "a"}; !slices.Equal(names, want) {
		t.Errorf("order %v, want %v", names, want)
	}
}
