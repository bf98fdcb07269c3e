package queue

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestAnEventOfAGroupIsEvaluatedForThatGroupAlone(t *testing.T) {
	podOf := func(group string) *v1.Pod {
		p := member(group, 2)
		p.Annotations[v1alpha1.AnnotationPodGroup] = group
		return p
	}
	podGroup := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: podOf("").Namespace, Name: "native"}}
	native := pod("native")
	native.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("native")}
	for name, test := range map[string]struct {
		happened fwk.ClusterEvent
		object   any
		hints    []Hint // further ones
		want     []string
	}{
		"a pod of a group is added":                 {podAdd, podOf("a"), nil, []string{"a"}},
		"a pod of a group gets a node":              {podAssigned, podOf("b"), nil, []string{"b"}},
		"a PodGroup changes":                        {podGroupUpdate, podGroup, nil, []string{"native"}},
		"a pod of a group that is not queued":       {podAdd, podOf("c"), nil, nil},
		"an object of another kind":                 {podAdd, nil, nil, []string{"a", "b", "native"}},
		"a pod of no group gets a node":             {podAssigned, pod("x"), nil, nil},
		"an event for which no plugin registered":   {nodeLabel, podOf("a"), nil, nil},
		"a node event that its plugin registered":   {nodeLabel, fixture.Node("n").Obj(), []Hint{{Plugin: "GangScheduling", Event: nodeLabel}}, []string{"a", "b", "native"}},
		"the plugin wants pods of all groups, too":  {podAdd, podOf("a"), []Hint{{Plugin: "GangScheduling", Event: podAdd}}, []string{"a", "b", "native"}},
		"another plugin wants pods of all groups":   {podAdd, podOf("a"), []Hint{{Plugin: "Other", Event: podAdd}}, []string{"a"}},
		"the event wakes all, whatever the plugins": {ForceActivate, nil, nil, []string{"a", "b", "native"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupEnv(t)
			w.addPods(podOf("a"), podOf("b"), native)
			w.expectAt(Gated, "a", "b", "native")
			var got []string
			w.rules.Hints = append(w.rules.Hints, test.hints...)
			w.rules.PreEnqueue = func(_ context.Context, pod *v1.Pod, _ string) string {
				got = append(got, pod.Name)
				return "GangScheduling"
			}
			rules := w.rules
			w.replaceRules(&rules)
			for _, group := range w.podGroups {
				group.rules = &rules
			}
			w.Event(w.ctx, test.happened, nil, test.object, nil)
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("groups whose PreEnqueue plugins run (-want +got):\n%s", diff)
			}
			w.expectAt(Gated, "a", "b", "native")
		})
	}
}
