package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/podgroups"
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
				env.want("condition", env.conditionOf(group), test.want)
			}, slices.Concat(nodesWithCPUs(1, 32), []runtime.Object{served}, pods[:test.bound])...)
		})
	}
}

func TestARefusedConditionOfAPodGroupIsSentLessAndLessOften(t *testing.T) {
	for name, test := range map[string]struct {
		// then is called after the condition was refused for an hour; the API server gets most requests
		// at most in the next hour, which it refuses too.
		then func(env *testEnv, group *schedulingv1beta1.PodGroup)
		most int
		// want is the condition when it is permitted again.
		want string
	}{
		"while the PodGroup exists": {func(*testEnv, *schedulingv1beta1.PodGroup) {}, 12, "True Scheduled"},
		"until the PodGroup is deleted": {func(env *testEnv, group *schedulingv1beta1.PodGroup) {
			env.must(env.cluster.SchedulingV1beta1().PodGroups(group.Namespace).Delete(env.ctx, group.Name, metav1.DeleteOptions{}))
			time.Sleep(groupStatusMaxRetry)
		}, 0, ""},
		"until another PodGroup has its name": {func(env *testEnv, group *schedulingv1beta1.PodGroup) {
			another := group.DeepCopy()
			another.UID = "another"
			env.updateGroup(another)
			time.Sleep(groupStatusMaxRetry)
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			group, _ := nativeGang("a", 3, 3)
			runWithGangs(t, func(env *testEnv) {
				var permitted atomic.Bool
				var requests atomic.Int32
				env.cluster.Interface.(*fake.Clientset).PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
					requests.Add(1)
					return !permitted.Load(), nil, apierrors.NewForbidden(schedulingv1beta1.Resource("podgroups"), group.Name, nil)
				})
				env.groupStatus.set(env.cache.Groups().Group(podgroups.KeyOfPodGroup(group)), groupCondition(nil))
				time.Sleep(time.Hour)
				test.then(env, group)
				synctest.Wait()
				before := requests.Load()
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := int(requests.Load() - before); got > test.most {
					t.Errorf("%d requests in an hour, want %d at most", got, test.most)
				}
				permitted.Store(true)
				time.Sleep(groupStatusMaxRetry + 2*groupStatusLag)
				env.want("condition", env.conditionOf(group), test.want)
				env.groupStatus.mu.Lock()
				defer env.groupStatus.mu.Unlock()
				if n := len(env.groupStatus.latest) + len(env.groupStatus.pending) + len(env.groupStatus.writing); n > 0 {
					t.Errorf("%d conditions are kept", n)
				}
			}, group)
		})
	}
}

func TestTheConditionOfAPodGroupIsAcceptedWhateverPluginsSay(t *testing.T) {
	condition := groupCondition(&cycle.GroupUnschedulableError{Message: strings.Repeat("node n has no licence, ", 5000)})
	condition.LastTransitionTime = metav1.Now()
	if errs := metav1validation.ValidateConditions([]metav1.Condition{condition}, nil); len(errs) > 0 {
		t.Errorf("the API server refuses it: %v", errs.ToAggregate())
	}
}

// conditionOf returns the condition that the API server has of a PodGroup; empty for none.
func (env *testEnv) conditionOf(group *schedulingv1beta1.PodGroup) (condition string) {
	stored, err := env.cluster.SchedulingV1beta1().PodGroups(group.Namespace).Get(env.ctx, group.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	env.must(err)
	for _, c := range stored.Status.Conditions {
		condition = fmt.Sprint(c.Status, " ", c.Reason)
	}
	return condition
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
