// Package gangscheduling schedules the pods of a group together or not at all.
//
// It keeps a group out of the active queue until it has enough pods, says in the cycle of the
// group whether enough of them fit, and lets none of them be bound before enough have a node.
//
// Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/gangscheduling, with the feature
// gate CompositePodGroup off.
package gangscheduling

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// Name is the name of the plugin in profiles.
const Name = "GangScheduling"

// permitTimeout is how long a pod waits at Permit until enough of its group have a node.
const permitTimeout = 5 * time.Minute

// Plugin reads the groups of pods.
type Plugin struct {
	handle fwk.Handle
	groups *podgroups.Store
}

var (
	_ fwk.PreEnqueuePlugin              = (*Plugin)(nil)
	_ fwk.PermitPlugin                  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions             = (*Plugin)(nil)
	_ framework.PlacementFeasiblePlugin = (*Plugin)(nil)
	_ framework.GroupEventsPlugin       = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments. Where handle has no groups, none exist.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	p := &Plugin{handle: handle, groups: podgroups.NewStore()}
	if h, ok := handle.(framework.PodGroupsHandle); ok && h.PodGroups() != nil {
		p.groups = h.PodGroups()
	}
	return p, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// PreEnqueue refuses a pod whose group has no PodGroup yet, or too few pods.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	quorum, ok := p.groups.QuorumOf(pod)
	if !ok {
		return nil
	}
	key, _ := podgroups.KeyOf(pod)
	if missing := quorum.Missing(key); missing != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, missing)
	}
	return nil
}

// PlacementFeasible says whether as many pods fit as the group wants.
func (*Plugin) PlacementFeasible(_ context.Context, _ fwk.PlacementCycleState, group fwk.PodGroupInfo, progress framework.PlacementProgress) *fwk.Status {
	minCount := podgroups.MinCountOf(group.GetPodGroup())
	switch {
	case progress.Remaining+progress.Scheduled < minCount:
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("minCount (%d) cannot be satisfied: %d scheduled, %d remaining", minCount, progress.Scheduled, progress.Remaining))
	case progress.Scheduled < minCount:
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("minCount (%d) is not yet satisfied: %d scheduled, %d remaining", minCount, progress.Scheduled, progress.Remaining))
	}
	return nil
}

// Permit has a pod wait until as many pods of its group have a node as the group wants. The
// pod with which they are enough lets the others go on. Pods that wait under another
// Generation, because the profile has changed since, are tried again instead: what a group
// wants is bound by one.
func (p *Plugin) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	progress, ok, err := p.groups.ProgressOf(pod)
	switch {
	case err != nil:
		return fwk.AsStatus(err), 0
	case !ok || !progress.IsGang:
		return nil, 0
	}
	var assumed []types.UID
	if progress.Scheduled >= progress.MinCount {
		assumed = p.groups.Assumed(pod)
		progress.Scheduled -= p.leaving(assumed)
	}
	if progress.Scheduled < progress.MinCount {
		p.handle.Activate(klog.FromContext(ctx), p.groups.ToActivate(pod))
		return fwk.NewStatus(fwk.Wait, fmt.Sprintf("%d of at least %d pods of the group have a node", progress.Scheduled, progress.MinCount)), permitTimeout
	}
	for _, uid := range assumed {
		if waiting := p.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Allow(Name)
		}
	}
	return nil, 0
}

// leaving counts the assumed pods that give their nodes back, those that wait under another
// Generation included.
func (p *Plugin) leaving(assumed []types.UID) (n int) {
	permit, ok := p.handle.(framework.PermitHandle)
	if !ok {
		return 0
	}
	for _, uid := range assumed {
		if permit.LeavesPermit(uid, Name, "the profile has changed since: the group is tried again") {
			n++
		}
	}
	return n
}

// EventsToRegister registers what may give a group enough pods: a pod of it that is added or
// assigned, its PodGroup, and a lower minCount. kube-scheduler's plugin does not register
// updates of the pod: there, no pod says how many are scheduled together.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.UnscheduledPod, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterPodAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterPodAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterPodGroupAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}, QueueingHintFn: isSchedulableAfterPodGroupUpdated},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: isSchedulableAfterPodUpdated},
	}, nil
}

// HasGroupEvents says that no event of another group opens a gate, or changes a refusal.
func (*Plugin) HasGroupEvents() {}

func isSchedulableAfterPodAdded(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	key, ok := podgroups.KeyOf(pod)
	if other, isMember := podgroups.KeyOf(added); ok && isMember && key == other {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func isSchedulableAfterPodGroupAdded(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*schedulingv1beta1.PodGroup](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if isGroupOf(pod, added) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func isSchedulableAfterPodGroupUpdated(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*schedulingv1beta1.PodGroup](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	was, is := before.Spec.SchedulingPolicy.Gang, after.Spec.SchedulingPolicy.Gang
	if isGroupOf(pod, after) && was != nil && is != nil && is.MinCount < was.MinCount {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func isSchedulableAfterPodUpdated(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if podgroups.DeclaredMinCount(before) != podgroups.DeclaredMinCount(after) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isGroupOf reports whether a pod names the PodGroup. That of another API group, which has
// the same events, is told apart by podgroups.SourceOf.
func isGroupOf(pod *v1.Pod, podGroup *schedulingv1beta1.PodGroup) bool {
	key, ok := podgroups.KeyOf(pod)
	return ok && key == podgroups.KeyOfPodGroup(podGroup)
}
