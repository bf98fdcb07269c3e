package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// groupSlice is for how long the loop decides about a group while pods in no group are active,
// and for how long it then decides about these. A gang of 1,000 pods of one class takes less on
// 5,000 nodes.
const groupSlice = 100 * time.Millisecond

// groupSlices are the slices of one attempt of a group.
type groupSlices struct {
	*Scheduler
	// loop ends when no further pod is to be tried.
	loop      context.Context
	heartbeat *heartbeat
	// start is that of the current slice.
	start time.Time
	// others is the time that other pods took; taken says that there were some.
	others time.Duration
	taken  bool
	// tried are the pods that were tried while pods of the group counted, and counted are those
	// that counted for the last of them.
	tried   sets.Set[types.UID]
	counted []*framework.PodInfo
}

var _ framework.GroupSlices = &groupSlices{}

func (s *Scheduler) newGroupSlices(loop context.Context, h *heartbeat) *groupSlices {
	return &groupSlices{Scheduler: s, loop: loop, heartbeat: h, start: h.start, tried: sets.New[types.UID]()}
}

// Over implements framework.GroupSlices.
func (g *groupSlices) Over() bool {
	return g.options.Clock.Since(g.start) >= groupSlice && g.loop.Err() == nil && g.queue.HasActivePod()
}

// TakeOthers implements framework.GroupSlices. The pods of the group count meanwhile. They are no
// victims: what deletes one that is pending still frees nothing.
func (g *groupSlices) TakeOthers(group []*framework.PodInfo) {
	begin, counted := g.options.Clock.Now(), make([]*framework.PodInfo, 0, len(group))
	for _, info := range group {
		if err := g.cache.CountPod(info, info.NodeName()); err == nil {
			// An update of the pod may have nominated it since its node was chosen. It would count
			// twice.
			g.cache.DeleteNominatedPodIfExists(info.OriginalPod())
			counted = append(counted, info)
		} // else another component has bound the pod, as its binding cycle will find out
	}
	defer func() { // also where the loop panics
		for _, info := range counted {
			g.cache.ForgetPod(info.OriginalPod().UID)
		}
		g.cache.UpdateSnapshot()
		g.others += g.start.Sub(begin)
	}()
	tried := g.tryOthers(begin)
	if len(counted) > 0 && len(tried) > 0 {
		g.tried.Insert(tried...)
		g.counted = counted
	}
}

// Taken implements framework.GroupSlices.
func (g *groupSlices) Taken() bool { return g.taken }

// tryOthers tries active pods for a slice that began at begin, and returns them.
func (g *groupSlices) tryOthers(begin time.Time) (tried []types.UID) {
	g.progress.end()
	// Deferred, so that a panic gets through scheduleGroup, which calls end once more.
	defer func() {
		g.start = g.options.Clock.Now()
		g.heartbeat = g.progress.resume(g.heartbeat, g.start)
	}()
	for g.loop.Err() == nil && g.options.Clock.Since(begin) < groupSlice {
		attempt := g.queue.TryPopPod()
		if attempt == nil {
			break
		}
		g.taken = true
		tried = append(tried, attempt.Pod.UID)
		g.scheduleOne(g.inFlight.ctx, attempt)
	}
	return tried
}

// release requeues pods that were refused while pods of the group counted, at the end of the
// group's attempt. Where these go to no node, this is like their deletion. Where they go to
// their nodes, they can be evicted from now on, for pods of a higher priority: the event of
// their deletion is what requeues a pod that it helps.
func (g *groupSlices) release(ctx context.Context) {
	for _, info := range g.counted {
		pod, goesToNode := info.GetPod(), g.cache.IsAssigned(info.GetPod().UID)
		g.queue.Event(ctx, eventAssignedPodDelete, pod, nil, func(refused *v1.Pod) bool {
			return g.tried.Has(refused.UID) && (!goesToNode || corev1.PodPriority(refused) > corev1.PodPriority(pod))
		})
	}
	if len(g.counted) > 0 {
		klog.FromContext(ctx).V(1).Info("Other pods were tried while pods of the group counted", "tried", len(g.tried), "counted", len(g.counted))
	}
}

// took returns the time since start that the loop spent on the group.
func (g *groupSlices) took(start time.Time) time.Duration {
	return g.options.Clock.Since(start) - g.others
}
