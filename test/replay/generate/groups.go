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
	// waiting are groups that wait for their victims, with their nominations.
	waiting []*Group
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
	g.changeProfile("DefaultPreemption")
	return g
}

// NewPreemptingGroups is NewGroups for a full cluster, in which groups preempt pods and groups.
func NewPreemptingGroups(seed uint64, attempts int) *Groups {
	g := &Groups{Generator: newPreempting(seed, attempts, true)}
	g.changeProfile()
	// What kube-scheduler's Filter of PodTopologySpread says after victims on several nodes were
	// added back depends on the order of a map: it keeps two domains, and not the smallest.
	plugins := g.config.Profile.Spec.Plugins
	for _, set := range []*v1alpha1.PluginSet{&plugins.PreFilter, &plugins.Filter} {
		if !slices.ContainsFunc(set.Disabled, func(p v1alpha1.DisabledPlugin) bool {
			return p.Name == v1alpha1.AllPlugins || p.Name == "PodTopologySpread"
		}) {
			set.Disabled = append(set.Disabled, v1alpha1.DisabledPlugin{Name: "PodTopologySpread"})
		}
		set.Enabled = slices.DeleteFunc(set.Enabled, func(p v1alpha1.EnabledPlugin) bool { return p.Name == "PodTopologySpread" })
	}
	return g
}

// changeProfile enables GangScheduling and DefaultPreemption, but for the plugins to disable.
// Groups are compared without claims, and no pod reaches PreBind.
func (g *Groups) changeProfile(disabled ...string) {
	if g.config.Profile.Spec.Plugins == nil {
		g.config.Profile.Spec.Plugins = &v1alpha1.Plugins{}
	}
	plugins := g.config.Profile.Spec.Plugins
	for _, name := range []string{"DefaultPreemption", "GangScheduling"} {
		for _, set := range []*v1alpha1.PluginSet{&plugins.MultiPoint, &plugins.PreEnqueue, &plugins.PreFilter, &plugins.Filter, &plugins.PostFilter, &plugins.Score, &plugins.Reserve, &plugins.Permit} {
			set.Enabled = slices.DeleteFunc(set.Enabled, func(p v1alpha1.EnabledPlugin) bool { return p.Name == name })
		}
	}
	plugins.MultiPoint.Enabled = append(plugins.MultiPoint.Enabled, v1alpha1.EnabledPlugin{Name: "GangScheduling"})
	if !slices.Contains(disabled, "DefaultPreemption") {
		for _, set := range []*v1alpha1.PluginSet{&plugins.MultiPoint, &plugins.PreEnqueue, &plugins.PostFilter} {
			set.Disabled = slices.DeleteFunc(set.Disabled, func(p v1alpha1.DisabledPlugin) bool {
				return p.Name == "DefaultPreemption" || p.Name == v1alpha1.AllPlugins
			})
		}
	}
	for _, name := range disabled {
		if !slices.ContainsFunc(plugins.MultiPoint.Disabled, func(p v1alpha1.DisabledPlugin) bool { return p.Name == name }) {
			plugins.MultiPoint.Disabled = append(plugins.MultiPoint.Disabled, v1alpha1.DisabledPlugin{Name: name})
		}
	}
	plugins.PreBind = v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: v1alpha1.AllPlugins}}}
}

// Next returns the ops before the next group, and the group; false after the last one. The
// caller must pass the outcomes of its pods to Observe.
func (g *Groups) Next() (ops []log.Op, group *Group, ok bool) {
	if len(g.waiting) > 0 && g.chance(60) {
		if ops = g.opsBetween(g.between(1, 12)); ops != nil {
			group, g.waiting = g.waiting[0], g.waiting[1:]
			return ops, group, true
		}
	}
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
			g.refuse(pod)
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
	if g.preempting != nil {
		group.PodGroup.Spec.DisruptionMode = draw(g.random, []weighted[*schedulingv1beta1.DisruptionMode]{
			{2, nil}, {1, &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}},
			{3, &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}},
		})
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

// refuse takes an attempt of a pod alone for one that was refused.
func (g *Groups) refuse(pod *v1.Pod) {
	g.last = pod
	g.Generator.Observe(&run.Outcome{Pod: pod})
}

// opsBetween returns up to n ops without attempts; nil after the last attempt.
func (g *Groups) opsBetween(n int) (ops []log.Op) {
	ops = []log.Op{}
	for range n {
		op, more := g.Generator.Next()
		if !more {
			return nil
		}
		if pod, isPod := op.Object.(*v1.Pod); isPod && op.Kind == log.Schedule {
			g.refuse(pod)
		} else {
			ops = append(ops, op)
		}
	}
	return ops
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

// Observe takes the outcomes of the group's pods.
func (g *Groups) Observe(group *Group, outcomes []*run.Outcome) {
	if slices.ContainsFunc(outcomes, func(o *run.Outcome) bool { return o.Nominated != "" }) {
		again := &Group{PodGroup: group.PodGroup}
		for i, outcome := range outcomes {
			pod := group.Pods[i].DeepCopy()
			pod.Status.NominatedNodeName = outcome.Nominated
			again.Pods = append(again.Pods, pod)
			g.preempting.victims = append(g.preempting.victims, outcome.Victims...)
		}
		g.waiting = append(g.waiting, again)
		return
	}
	for i, outcome := range outcomes {
		pod := group.Pods[i].DeepCopy()
		if outcome.Node == "" || g.preempting == nil {
			pod.Spec.SchedulingGroup = nil // it may be in another group, or in none
		}
		g.last = pod
		g.Generator.Observe(&run.Outcome{Pod: pod, Node: outcome.Node, Nominated: outcome.Nominated, Victims: outcome.Victims})
	}
}
