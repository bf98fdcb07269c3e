package generate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Groups generates a history whose pods are scheduled in groups: that of a Generator, with
// pods that it would have scheduled one after the other in one group.
type Groups struct {
	*Generator
	groups int
}

// Group is the attempt of a group.
type Group struct {
	PodGroup *schedulingv1beta1.PodGroup
	// Pods are the pods in the order in which they are tried.
	Pods []*v1.Pod
}

// NewGroups returns the history of a seed, with this many attempts of pods.
func NewGroups(seed uint64, attempts int) *Groups {
	g := &Groups{Generator: New(seed, attempts)}
	// Groups are compared without preemption and without claims, and no pod reaches PreBind.
	if g.config.Profile.Spec.Plugins == nil {
		g.config.Profile.Spec.Plugins = &v1alpha1.Plugins{}
	}
	plugins := g.config.Profile.Spec.Plugins
	for _, name := range []string{"DefaultPreemption", "DynamicResources", "GangScheduling"} {
		for _, set := range []*v1alpha1.PluginSet{&plugins.MultiPoint, &plugins.PreEnqueue, &plugins.PreFilter, &plugins.Filter, &plugins.PostFilter, &plugins.Score, &plugins.Reserve, &plugins.Permit} {
			set.Enabled = slices.DeleteFunc(set.Enabled, func(p v1alpha1.EnabledPlugin) bool { return p.Name == name })
		}
	}
	plugins.MultiPoint.Enabled = append(plugins.MultiPoint.Enabled, v1alpha1.EnabledPlugin{Name: "GangScheduling"})
	for _, name := range []string{"DefaultPreemption", "DynamicResources"} {
		if !slices.ContainsFunc(plugins.MultiPoint.Disabled, func(p v1alpha1.DisabledPlugin) bool { return p.Name == name }) {
			plugins.MultiPoint.Disabled = append(plugins.MultiPoint.Disabled, v1alpha1.DisabledPlugin{Name: name})
		}
	}
	plugins.PreBind = v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: v1alpha1.AllPlugins}}}
	return g
}

// Next returns the ops before the next group, and the group; false after the last one. The
// caller must pass the outcomes of its pods to Observe.
func (g *Groups) Next() (ops []log.Op, group *Group, ok bool) {
	g.groups++
	size := draw(g.random, []weighted[int]{{2, 1}, {5, g.between(2, 5)}, {4, g.between(6, 20)}, {1, g.between(21, 60)}})
	alike := g.chance(40)
	group = &Group{}
	name := fmt.Sprintf("group-%d", g.groups)
	for len(group.Pods) < size {
		op, more := g.Generator.Next()
		if !more {
			break
		}
		pod, isPod := op.Object.(*v1.Pod)
		if op.Kind != log.Schedule || !isPod {
			ops = append(ops, op)
			continue
		}
		if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" || len(pod.Spec.Volumes) > 0 {
			g.last = pod
			g.Generator.Observe(&run.Outcome{Pod: pod}) // as if it were refused
			continue
		}
		group.Pods = append(group.Pods, group.member(pod, name, alike))
	}
	if len(group.Pods) == 0 {
		return ops, nil, false
	}
	first := group.Pods[0]
	group.PodGroup = &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: name, UID: types.UID(name)},
		Spec:       schedulingv1beta1.PodGroupSpec{Priority: first.Spec.Priority},
	}
	if g.chance(85) {
		minCount := int32(len(group.Pods))
		if g.chance(40) {
			minCount = int32(g.between(1, len(group.Pods)))
		}
		group.PodGroup.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	} else {
		group.PodGroup.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	return ops, group, true
}

// member returns the pod as a member of the group: in the namespace and with the priority of
// the first, and otherwise like it if alike is set.
func (group *Group) member(pod *v1.Pod, name string, alike bool) *v1.Pod {
	member := pod.DeepCopy()
	if len(group.Pods) > 0 {
		first := group.Pods[0]
		if alike {
			member = first.DeepCopy()
			member.Name, member.UID, member.ResourceVersion = pod.Name, pod.UID, pod.ResourceVersion
		}
		member.Namespace = first.Namespace
		member.Spec.Priority, member.Spec.PreemptionPolicy = first.Spec.Priority, first.Spec.PreemptionPolicy
	}
	member.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	return member
}

// Observe takes the nodes of the group's pods, "" for none.
func (g *Groups) Observe(group *Group, nodes []string) {
	for i, node := range nodes {
		original := group.Pods[i].DeepCopy()
		original.Spec.SchedulingGroup = nil
		g.last = original
		g.Generator.Observe(&run.Outcome{Pod: original, Node: node})
	}
}
