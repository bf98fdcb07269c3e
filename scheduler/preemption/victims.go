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

// victim is a pod that might have to leave.
type victim struct {
	fwk.PodInfo
	priority int32
	start    time.Time
}

// lesser returns the pods on node with a lower priority than the given one.
func lowerPriorityPods(node fwk.NodeInfo, priority int32, now time.Time) []*victim {
	var all []victim // in one piece: there are many nodes to look at
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

// startOf is when a pod began to run; one that has not begins now. Upstream
// reads the clock for each such pod, so that of two the first to be looked at
// is the older: lesser keeps that order on a clock that stands still.
func startTime(pod *v1.Pod, now time.Time) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return now
}

// byImportance puts those first who are to be spared first: higher priority,
// then the longer run. Ties fall as sort.Slice lets them, which is what
// upstream calls: another way to sort could choose other victims.
func sortByImportance(victims []*victim) {
	sort.Slice(victims, func(i, j int) bool {
		a, b := victims[i], victims[j]
		if a.priority != b.priority {
			return a.priority > b.priority
		}
		return a.start.Before(b.start)
	})
}

// trial thinks through who leaves one node. state and node are its own.
type dryRun struct {
	request framework.PreemptionRequest
	state   fwk.CycleState
	node    fwk.NodeInfo
}

// victims returns who has to leave, of those who may be evicted, the most
// important first, and how many of them budgets would have kept. All leave; if
// the pod fits then, they come back one by one, and who would be in the way
// stays out. Those whom a budget protects come back first.
func (t *dryRun) selectVictims(ctx context.Context, evictable []*victim, budgets *budgets) (out []*v1.Pod, violations int, status *fwk.Status) {
	for _, v := range evictable {
		if err := t.remove(ctx, v); err != nil {
			return nil, 0, fwk.AsStatus(err)
		}
	}
	if status := t.fits(ctx); !status.IsSuccess() {
		return nil, 0, status
	}
	sortByImportance(evictable)
	protected, free := budgets.split(evictable)
	left, err := t.reprieve(ctx, protected)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	rest, err := t.reprieve(ctx, free)
	if err != nil {
		return nil, 0, fwk.AsStatus(err)
	}
	violations = len(left)
	left = append(left, rest...)
	if len(protected) > 0 && len(free) > 0 {
		sortByImportance(left)
	}
	for _, v := range left {
		out = append(out, v.GetPod())
	}
	return out, violations, nil
}

// reprieve lets victims come back in their order as long as the pod still
// fits, and returns those for whom there is no room.
func (t *dryRun) reprieve(ctx context.Context, victims []*victim) (out []*victim, err error) {
	for _, v := range victims {
		if err := t.add(ctx, v); err != nil {
			return nil, err
		}
		if t.fits(ctx).IsSuccess() {
			continue
		}
		if err := t.remove(ctx, v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (t *dryRun) fits(ctx context.Context) *fwk.Status {
	return t.request.Handle.RunFilterPluginsWithNominatedPods(ctx, t.state, t.request.Pod, t.node)
}

func (t *dryRun) remove(ctx context.Context, v *victim) error {
	if err := t.node.RemovePod(klog.FromContext(ctx), v.GetPod()); err != nil {
		return err
	}
	return t.request.Handle.RunPreFilterExtensionRemovePod(ctx, t.state, t.request.Pod, v.PodInfo, t.node).AsError()
}

func (t *dryRun) add(ctx context.Context, v *victim) error {
	t.node.AddPodInfo(v.PodInfo)
	return t.request.Handle.RunPreFilterExtensionAddPod(ctx, t.state, t.request.Pod, v.PodInfo, t.node).AsError()
}
