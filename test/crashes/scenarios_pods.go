package crashes

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

// Scenarios of pods, without volumes and devices.

func prepareBinds(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj(), e.node("n1", 4).Obj()); err != nil {
		return err
	}
	return e.startProfile(ctx)
}

func actBinds(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, e.pod("web-0", 2), e.pod("web-1", 2), e.pod("web-2", 2)); err != nil {
		return err
	}
	return e.bound(ctx, "web-0", "web-1", "web-2")
}

// explainAll explains pods that are bound, too, and names nodes.
func explainAll(s *v1alpha1.SchedulingProfileSpec) {
	s.Decisions.Explain, s.Decisions.Detail = v1alpha1.ExplainAll, v1alpha1.DetailNodes
}

func prepareRefusal(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj()); err != nil {
		return err
	}
	return e.startProfile(ctx, explainAll)
}

// actRefusal has two pods refused and explained. One is deleted, the other is bound when there is a
// node for it. That updates its explanation, unless the pod is seen to be bound before its bind is
// explained: then the explanation is deleted and written anew, and another pod is refused and bound.
func actRefusal(ctx context.Context, e *env) error {
	if err := e.refusedAndExplained(ctx, e.pod("web", 8), e.pod("gone", 16)); err != nil {
		return err
	}
	if err := e.deletePod(ctx, "gone"); err != nil {
		return err
	}
	if err := e.notExplained(ctx, "gone"); err != nil {
		return err
	}
	if err := e.bindOnNewNode(ctx, "web"); err != nil {
		return err
	}
	t := e.trigger.Load()
	for i := range 3 {
		if _, counts := t.writes(); counts["PATCH schedulingdecisions"] > 0 || t.victim() != nil {
			break
		}
		name := fmt.Sprint("web-", i)
		if err := e.refusedAndExplained(ctx, e.pod(name, 8)); err != nil {
			return err
		}
		if err := e.bindOnNewNode(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// refusedAndExplained creates pods, and waits until they are refused and explained.
func (e *env) refusedAndExplained(ctx context.Context, pods ...*fixture.PodBuilder) error {
	if err := e.createPods(ctx, pods...); err != nil {
		return err
	}
	for _, b := range pods {
		name := b.Obj().Name
		if err := e.refused(ctx, v1.PodReasonUnschedulable, name); err != nil {
			return err
		}
		if err := e.explained(ctx, name, v1alpha1.ResultUnschedulable); err != nil {
			return err
		}
	}
	return nil
}

// bindOnNewNode creates a node for a pod, and waits until it is bound and explained.
func (e *env) bindOnNewNode(ctx context.Context, pod string) error {
	if err := e.create(ctx, e.node("for-"+pod, 8).Obj()); err != nil {
		return err
	}
	if err := e.bound(ctx, pod); err != nil {
		return err
	}
	return e.explained(ctx, pod, v1alpha1.ResultBound)
}

func (e *env) deletePod(ctx context.Context, name string) error {
	return e.delete(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.id, Name: name}})
}

// fillers are pods that are deleted so that another pod is tried again.
var fillers = []string{"filler-0", "filler-1", "filler-2"}

func prepareRepeats(ctx context.Context, e *env) error {
	if err := prepareRefusal(ctx, e); err != nil {
		return err
	}
	for _, name := range fillers {
		if err := e.createPods(ctx, e.pod(name, 1)); err != nil {
			return err
		}
	}
	if err := e.bound(ctx, fillers...); err != nil {
		return err
	}
	// It would fit if all were gone, so that each deletion may make it fit.
	if err := e.createPods(ctx, e.pod("web", 4), e.pod("stays", 1)); err != nil {
		return err
	}
	if err := e.bound(ctx, "stays"); err != nil {
		return err
	}
	return e.refused(ctx, v1.PodReasonUnschedulable, "web")
}

// actRepeats has a pod refused again and again, until its Event was repeated. That counts from
// the newest version of the pod; the third occurrence would not be written for half an hour.
func actRepeats(ctx context.Context, e *env) error {
	t := e.trigger.Load()
	for _, name := range fillers {
		if _, counts := t.writes(); counts["PATCH events"] > 0 {
			break
		}
		before := t.events()
		if err := e.deletePod(ctx, name); err != nil {
			return err
		}
		err := until(ctx, "an Event of another attempt", func(context.Context) error {
			if t.events() == before && t.victim() == nil {
				return errors.New("there is none")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// explained waits until a pod has a SchedulingDecision with this result.
func (e *env) explained(ctx context.Context, name string, result v1alpha1.DecisionResult) error {
	return until(ctx, "the explanation of "+name, func(ctx context.Context) error {
		if result == v1alpha1.ResultBound && e.trigger.Load().victim() != nil {
			// The next leader deletes the explanations of bound pods, and writes none for a
			// pod that another process bound. The checks find one that is not true.
			return nil
		}
		var d v1alpha1.SchedulingDecision
		if err := e.get(ctx, name, &d); err != nil {
			return err
		}
		if d.Status.Result != result {
			return fmt.Errorf("it says %s, want %s: %s", d.Status.Result, result, d.Status.Message)
		}
		return nil
	})
}

// notExplained waits until there is no SchedulingDecision of that name.
func (e *env) notExplained(ctx context.Context, name string) error {
	return until(ctx, "the end of the explanation of "+name, func(ctx context.Context) error {
		err := e.get(ctx, name, &v1alpha1.SchedulingDecision{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it exists"))
	})
}

// prioritized sets the PriorityClass of a pod.
func prioritized(b *fixture.PodBuilder, class string) *fixture.PodBuilder {
	return b.Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = class })
}

// preparePreemption fills two nodes with two pods each.
func preparePreemption(ctx context.Context, e *env) error {
	if err := prepareBinds(ctx, e); err != nil {
		return err
	}
	return e.fill(ctx, 4, 2)
}

// fill creates pods of a low priority, and waits until they are bound.
func (e *env) fill(ctx context.Context, count, cpus int) error {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("low-", i))
		if err := e.createPods(ctx, prioritized(e.pod(names[i], cpus), low)); err != nil {
			return err
		}
	}
	return e.bound(ctx, names...)
}

func actPreemption(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, prioritized(e.pod("important", 4), high)); err != nil {
		return err
	}
	return e.bound(ctx, "important")
}

// gangs enables GangScheduling.
func gangs(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}
}

func prepareGroups(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 2).Obj(), e.node("n1", 2).Obj()); err != nil {
		return err
	}
	return e.startProfile(ctx, gangs)
}

const groupName = "team"

// createGroup creates a gang of three pods with one CPU each.
func (e *env) createGroup(ctx context.Context, class string) error {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: e.id, Name: groupName}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}
	group.Spec.PriorityClassName = class
	if err := e.create(ctx, group); err != nil {
		return err
	}
	for i := range 3 {
		pod := prioritized(e.pod(fmt.Sprint(groupName, "-", i), 1), class).Mutate(func(pod *v1.Pod) {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new(groupName)}
		})
		if err := e.createPods(ctx, pod); err != nil {
			return err
		}
	}
	return e.bound(ctx, groupName+"-0", groupName+"-1", groupName+"-2")
}

func actGroups(ctx context.Context, e *env) error {
	return then(func(ctx context.Context, e *env) error { return e.createGroup(ctx, "") }, expectGroups)(ctx, e)
}

// expectGroups waits until the PodGroup says that the group was scheduled.
func expectGroups(ctx context.Context, e *env) error {
	return until(ctx, "the condition of the PodGroup", func(ctx context.Context) error {
		var group schedulingv1beta1.PodGroup
		if err := e.get(ctx, groupName, &group); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
			return fmt.Errorf("its conditions are %+v", group.Status.Conditions)
		}
		return nil
	})
}

func prepareGroupPreemption(ctx context.Context, e *env) error {
	if err := prepareGroups(ctx, e); err != nil {
		return err
	}
	return e.fill(ctx, 4, 1)
}

func actGroupPreemption(ctx context.Context, e *env) error {
	return then(func(ctx context.Context, e *env) error { return e.createGroup(ctx, high) }, expectGroups)(ctx, e)
}
