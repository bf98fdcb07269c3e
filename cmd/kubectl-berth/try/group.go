package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// Group is the group that the pods form.
type Group struct {
	// Name has the namespace, and how the pods name the group.
	Name string `json:"name"`
	// MinCount is how many of its pods are scheduled together; 0 where that is not known, or
	// where the group is no gang.
	MinCount int `json:"minCount,omitempty"`
}

// podGroupOf reads a document about a PodGroup; nil if it is of another kind.
func podGroupOf(d manifest.Document) (*schedulingv1beta1.PodGroup, error) {
	switch d.Object.GroupVersionKind() {
	case schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"):
		group := &schedulingv1beta1.PodGroup{}
		if err := manifest.Decode(d.Object, group); err != nil {
			return nil, fmt.Errorf("PodGroup: %w", err)
		}
		return group, nil
	case state.CoschedulingKind:
		return podgroups.FromCoscheduling(d.Object), nil
	}
	return nil, nil
}

// addPodGroup adds the PodGroup that the pods name, that of the files before that of the
// cluster. Pods of other sources name none.
func (o *options) addPodGroup(ctx context.Context, scheduler *sandbox.Scheduler, s *subject, key podgroups.Key) error {
	for _, group := range s.podGroups {
		if group.Name == key.Name && cmp.Or(group.Namespace, key.Namespace) == key.Namespace && podgroups.SourceOf(group) == key.Source {
			group.Namespace = key.Namespace
			scheduler.SetPodGroup(key.Source, group)
			return nil
		}
	}
	group, err := o.reader().PodGroup(ctx, key)
	if group != nil {
		scheduler.SetPodGroup(key.Source, group)
	}
	return err // without a PodGroup, the gate says that it does not exist
}

// takeMembers returns the other pending pods of the group of a pod that is pending in the
// cluster, and removes them from the copy: Berth tries them with it.
func (o *options) takeMembers(p *state.Profile, s *subject, key podgroups.Key, live *state.State) (members []*v1.Pod) {
	if s.replaced == nil {
		return nil
	}
	for _, pod := range live.PendingMembers(p, key) {
		if pod.Spec.SchedulerName != s.replaced.Spec.SchedulerName || pod.DeletionTimestamp != nil {
			continue
		}
		live.Pods = slices.DeleteFunc(live.Pods, func(other *v1.Pod) bool { return other == pod })
		member := pod.DeepCopy()
		member.Spec.SchedulerName = p.Name
		members = append(members, member)
	}
	if len(members) > 0 {
		o.note("%s of the group also pending: the group is tried as a whole", show.Count(len(members), "other pod"))
	}
	return members
}

// tryGroup runs the cycle of the group that the pods form, with members of the cluster.
func (o *options) tryGroup(ctx context.Context, scheduler *sandbox.Scheduler, p *state.Profile, s *subject, key podgroups.Key, members []*v1.Pod) (*Group, []Pod, error) {
	pods := append(s.pods(), members...)
	if err := o.addPodGroup(ctx, scheduler, s, key); err != nil {
		return nil, nil, err
	}
	scheduler.AddToGroup(pods)
	known := scheduler.Group(key)
	group := &Group{Name: key.String()}
	if known.IsGang() {
		group.MinCount = known.MinCount()
	}
	results := make([]Pod, len(pods))
	if message, rejections := groupRefusal(ctx, scheduler, p, known, pods); message != "" {
		for i, pod := range pods {
			results[i] = Pod{Pod: pod.Namespace + "/" + pod.Name, Message: message, Rejections: rejections}
		}
		return group, results, nil
	}
	at := map[*v1.Pod]int{}
	for i, pod := range pods {
		at[pod] = i
	}
	outcome := scheduler.TryGroup(ctx, key, pods, func(m *cycle.GroupMember) {
		if m.Placement != nil {
			one := &results[at[m.Pod]]
			one.setPlacement(m.Placement)
			one.Devices = scheduler.Framework().GivenDevices(m.State, m.Pod)
		}
	})
	for i, m := range outcome.Members {
		if outcome.Err != nil || m.Placement == nil {
			results[i] = Pod{}
			results[i].setGroupRejection(m, outcome.Err)
		}
		results[i].Pod = m.Pod.Namespace + "/" + m.Pod.Name
	}
	if outcome.Plan != nil {
		room := &Preemption{Violations: outcome.Plan.Violations}
		for _, victim := range outcome.Plan.Victims {
			room.Victims = append(room.Victims, victim.Namespace+"/"+victim.Name)
		}
		results[0].Preemption = room
	}
	return group, results, ctx.Err()
}

// groupRefusal returns why the group is not tried: its profile holds it, its pods make no
// group, or a PreEnqueue plugin gates one of them, which gates all; "" where it is tried.
func groupRefusal(ctx context.Context, scheduler *sandbox.Scheduler, p *state.Profile, known *podgroups.Group, pods []*v1.Pod) (message string, rejections []v1alpha1.Rejection) {
	switch {
	case p.HeldMessage != "":
		return p.HeldMessage, nil
	case known.Err != nil:
		return known.Err.Error(), nil
	}
	for _, pod := range pods {
		if plugin, status := scheduler.RunPreEnqueuePlugins(ctx, pod); plugin != "" {
			return status.Message(), []v1alpha1.Rejection{{Plugin: plugin, Reason: status.Message()}}
		}
	}
	return "", nil
}

// setGroupRejection sets why a pod of a group would stay pending: for itself, or for its group.
func (p *Pod) setGroupRejection(m *cycle.GroupMember, groupErr error) {
	err := cmp.Or(m.Err, groupErr)
	p.Message = err.Error()
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		p.Rejections, _ = cycle.Rejections(unfit, func(_, reason string) string { return reason })
	}
}
