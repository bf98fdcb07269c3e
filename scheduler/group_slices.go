package scheduler

import (
	"context"
	"time"

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
	// others is the time that other pods took, and tried their number.
	others time.Duration
	tried  int
	// counted are the pods of the group that counted for the last of them.
	counted []*framework.PodInfo
}

var _ framework.GroupSlices = &groupSlices{}

func (s *Scheduler) newGroupSlices(loop context.Context, h *heartbeat) *groupSlices {
	return &groupSlices{Scheduler: s, loop: loop, heartbeat: h, start: h.start}
}

// Over implements framework.GroupSlices.
func (g *groupSlices) Over() bool {
	return g.options.Clock.Since(g.start) >= groupSlice && g.loop.Err() == nil && g.queue.HasActivePod()
}

// TakeOthers implements framework.GroupSlices. The pods of the group are assumed meanwhile.
func (g *groupSlices) TakeOthers(group []*framework.PodInfo) {
	begin, assumed := g.options.Clock.Now(), make([]*framework.PodInfo, 0, len(group))
	for _, info := range group {
		if err := g.cache.AssumePod(info, info.NodeName()); err == nil {
			// An update of the pod may have nominated it since its node was chosen. It would count
			// twice.
			g.cache.DeleteNominatedPodIfExists(info.OriginalPod())
			assumed = append(assumed, info)
		} // else another component has bound the pod, as its binding cycle will find out
	}
	defer func() { // also where the loop panics
		for _, info := range assumed {
			g.cache.ForgetPod(info.OriginalPod().UID)
		}
		g.cache.UpdateSnapshot()
		g.others += g.start.Sub(begin)
		if len(group) > 0 {
			g.counted = assumed
		}
	}()
	g.tryOthers(begin)
}

// tryOthers tries active pods for a slice that began at begin.
func (g *groupSlices) tryOthers(begin time.Time) {
	g.progress.end()
	// Deferred, so that a panic gets through scheduleGroup, which calls end once more.
	defer func() {
		g.start = g.options.Clock.Now()
		g.heartbeat = g.progress.resume(g.heartbeat, g.start)
	}()
	for g.loop.Err() == nil && g.options.Clock.Since(begin) < groupSlice {
		attempt := g.queue.TryPopPod()
		if attempt == nil {
			return
		}
		g.tried++
		g.scheduleOne(g.inFlight.ctx, attempt)
	}
}

// release requeues pods that were refused while pods of the group counted, which go to no node
// now: for those this is like their deletion.
func (g *groupSlices) release(ctx context.Context) {
	if g.tried == 0 || len(g.counted) == 0 {
		return
	}
	for _, info := range g.counted {
		g.queue.Event(ctx, eventAssignedPodDelete, info.GetPod(), nil, nil)
	}
	klog.FromContext(ctx).V(1).Info("Other pods were tried while pods of the group counted, which do not go to their nodes", "tried", g.tried, "counted", len(g.counted))
}

// took returns the time since start that the loop spent on the group.
func (g *groupSlices) took(start time.Time) time.Duration {
	return g.options.Clock.Since(start) - g.others
}
