package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/plugins"
)

// A PodGroup says that its pods are scheduled whatever the informer of PodGroups, or an earlier
// leader, does late.
func TestTheConditionOfAPodGroupWhosePodsRunIsCompleted(t *testing.T) {
	for name, test := range map[string]struct {
		bound   int
		arrives func(env *testEnv, group *schedulingv1beta1.PodGroup)
		want    string
	}{
		"its informer is behind when the leader begins": {3, (*testEnv).createGroup, "True Scheduled"},
		"too few of its pods run":                       {2, (*testEnv).createGroup, ""},
		"the informer of its pods is behind": {2, func(env *testEnv, group *schedulingv1beta1.PodGroup) {
			env.createGroup(group)
			_, pods := nativeGang("a", 3, 3)
			pods[2].(*v1.Pod).Spec.NodeName = "n0"
			env.create(pods[2])
		}, "True Scheduled"},
		"an earlier leader's write replaces it at once": {3, func(env *testEnv, group *schedulingv1beta1.PodGroup) {
			env.createGroup(group)
			env.refuseLate(group)
			time.Sleep(groupStatusLag)
		}, "True Scheduled"},
		"an earlier leader's write replaces it later": {3, func(env *testEnv, group *schedulingv1beta1.PodGroup) {
			env.createGroup(group)
			time.Sleep(2 * groupStatusLag)
			env.refuseLate(group)
		}, "True Scheduled"},
		"it is made again under its name": {3, func(env *testEnv, group *schedulingv1beta1.PodGroup) {
			env.createGroup(group)
			again := group.DeepCopy()
			again.UID = "another"
			env.updateGroup(again)
		}, "True Scheduled"},
	} {
		t.Run(name, func(t *testing.T) {
			group, pods := nativeGang("a", 3, 3)
			served, _ := nativeGang("another", 1, 1)
			for _, pod := range pods[:test.bound] {
				pod.(*v1.Pod).Spec.NodeName = "n0"
			}
			runTestWith(t, plugins.InTree(), func(env *testEnv) {
				env.profile("p", gangPlugins)
				defer env.startLeading()()
				test.arrives(env, group)
				synctest.Wait()
				stored, err := env.cluster.SchedulingV1beta1().PodGroups(group.Namespace).Get(env.ctx, group.Name, metav1.GetOptions{})
				env.must(err)
				got := ""
				for _, c := range stored.Status.Conditions {
					got = fmt.Sprint(c.Status, " ", c.Reason)
				}
				env.want("condition", got, test.want)
			}, slices.Concat(nodesWithCPUs(1, 32), []runtime.Object{served}, pods[:test.bound])...)
		})
	}
}

func (env *testEnv) createGroup(group *schedulingv1beta1.PodGroup) { env.create(group) }

func (env *testEnv) updateGroup(group *schedulingv1beta1.PodGroup) {
	_, err := env.cluster.SchedulingV1beta1().PodGroups(group.Namespace).Update(env.ctx, group, metav1.UpdateOptions{})
	env.must(err)
	synctest.Wait()
}

// refuseLate writes the condition of an attempt that found no nodes.
func (env *testEnv) refuseLate(group *schedulingv1beta1.PodGroup) {
	late := group.DeepCopy()
	late.Status.Conditions = []metav1.Condition{groupCondition(&cycle.GroupUnschedulableError{Message: "no nodes"})}
	env.updateGroup(late)
}
