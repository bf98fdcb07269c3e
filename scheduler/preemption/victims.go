package preemption

import (
	"context"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// victim is a pod that may be evicted.
type victim struct {
	fwk.PodInfo
	priority int32
	start    time.Time
}

// lowerPriorityPods returns the pods on node whose priority is lower than priority.
func lowerPriorityPods(node fwk.NodeInfo, priority int32, now time.Time) []*victim {
	var all []victim // one allocation, because there are many nodes
	pods := node.GetPods()
	for i, info := range pods {
		pod := info.GetPod()
		if p := corev1.PodPriority(pod); p < priority {
			if all == nil {
				all = make([]victim, 0, len(pods)-i)
			}
			all = append(all, victim{PodInfo: info, priority: p, start: startTime(pod, now.Add(time.Duration(i)))})
		}
	}
	found := make([]*victim, len(all))
	for i := range all {
		found[i] = &all[i]
	}
	return found
}

// startTime returns when a pod started; now for one that has not. kube-scheduler reads
// the clock for each such pod, so that the one looked at first is the older one:
// lowerPriorityPods keeps that order also when the clock stands still.
func startTime(pod *v1.Pod, now time.Time) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return now
}

// sortByImportance sorts the most important victims to the front: higher priority,
// then the longer run. It uses sort.Slice, as kube-scheduler does, because the order of
// equal victims decides which of them are evicted.
func sortByImportance(victims []*victim) {
	sort.Slice(victims, func(i, j int) bool {
		a, b := victims[i], victims[j]
		if a.priority != b.priority {
			return a.priority > b.priority
		}
		return a.start.Before(b.start)
	})
}

// dryRun selects victims on one node. It owns state and node.
type dryRun struct {
	request framework.PreemptionRequest
	state   fwk.CycleState
	node    fwk.NodeInfo
}

// selectVictims returns which of the evictable pods have to leave, the most important
// first, and how many of them violate a budget. It removes all; if the pod fits then, it
// adds them back one by one and keeps removed those with which the pod does not fit.
// Pods that a budget protects are added back first.
func (d *dryRun) selectVictims(ctx context.Context, evictable []*victim, budgets *budgets) (selected []*v1.Pod, violations int, status *fwk.Status) {
	for _, v := range evictable {
		if err := d.remove(ctx, v); err != nil {
			return nil, 0, fwk.AsStatus(err)
		}
	}
	if status := d.fits(ctx); !status.IsSuccess() {
		return nil, 0, status
	}
	sortByImportance(evictable)
	protected, free := budgets.split(evictable)
	left, err := d.reprieve(ctx, protected)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	rest, err := d.reprieve(ctx, free)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	violations = len(left)
	left = append(left, rest...)
	if len(protected) > 0 && len(free) > 0 {
		sortByImportance(left)
	}
	for _, v := range left {
		selected = append(selected, v.GetPod())
	}
	return selected, violations, nil
}

// reprieve adds victims back in their order as long as the pod still fits, and returns
// those with which it does not.
func (d *dryRun) reprieve(ctx context.Context, victims []*victim) (selected []*victim, err error) {
	for _, v := range victims {
		if err := d.add(ctx, v); err != nil {
			return nil, err
		}
		if d.fits(ctx).IsSuccess() {
			continue
		}
		if err := d.remove(ctx, v); err != nil {
			return nil, err
		}
		selected = append(selected, v)
	}
	return selected, nil
}

func (d *dryRun) fits(ctx context.Context) *fwk.Status {
	return d.request.Handle.RunFilterPluginsWithNominatedPods(ctx, d.state, d.request.Pod, d.node)
}

func (d *dryRun) remove(ctx context.Context, v *victim) error {
	if err := d.node.RemovePod(klog.FromContext(ctx), v.GetPod()); err != nil {
		return err
	}
	return d.request.Handle.RunPreFilterExtensionRemovePod(ctx, d.state, d.request.Pod, v.PodInfo, d.node).AsError()
}

func (d *dryRun) add(ctx context.Context, v *victim) error {
	d.node.AddPodInfo(v.PodInfo)
	return d.request.Handle.RunPreFilterExtensionAddPod(ctx, d.state, d.request.Pod, v.PodInfo, d.node).AsError()
}
