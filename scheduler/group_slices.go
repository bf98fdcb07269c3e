package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
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
	// holding says that pods of the group count now, or what is reserved for them, and refused are
	// the pods, by UID, that no node fitted meanwhile.
	holding bool
	refused map[string]*v1.Pod
}

var _ framework.GroupSlices = &groupSlices{}

func (s *Scheduler) newGroupSlices(loop context.Context, h *heartbeat) *groupSlices {
	return &groupSlices{Scheduler: s, loop: loop, heartbeat: h, start: h.start, refused: map[string]*v1.Pod{}}
}

// Over implements framework.GroupSlices. It is called between two pods, or victims, of the group:
// the loop makes progress.
func (g *groupSlices) Over() bool {
	g.nextStep()
	return g.options.Clock.Since(g.start) >= groupSlice && g.loop.Err() == nil && g.queue.HasActivePod()
}

// nextStep tells the watchdog that the loop goes on.
func (g *groupSlices) nextStep() {
	now := g.options.Clock.Now()
	g.heartbeat.step.Store(&now)
}

// TakeOthers implements framework.GroupSlices. As long as pods of the group count, or what is
// reserved for them, no pod preempts others: it might fit once the group is decided, or want victims
// that are pending still. An eviction cannot be taken back.
func (g *groupSlices) TakeOthers(group []*framework.PodInfo, count bool) {
	begin, counted := g.options.Clock.Now(), []*framework.PodInfo(nil)
	if count {
		counted = g.count(group)
	}
	g.holding = len(group) > 0
	defer func() { // also where the loop panics
		g.holding = false
		for _, info := range counted {
			g.cache.ForgetPod(info.OriginalPod().UID)
		}
		g.cache.UpdateSnapshot()
		g.others += g.start.Sub(begin)
	}()
	g.tryOthers(begin)
}

// count counts pods on their nodes, and returns those that count.
func (g *groupSlices) count(group []*framework.PodInfo) []*framework.PodInfo {
	counted := make([]*framework.PodInfo, 0, len(group))
	for _, info := range group {
		if err := g.cache.CountPod(info, info.NodeName()); err == nil {
			// An update of the pod may have nominated it since its node was chosen. It would count
			// twice.
			g.cache.DeleteNominatedPodIfExists(info.OriginalPod())
			counted = append(counted, info)
		} // else another component has bound the pod, as its binding cycle will find out
	}
	return counted
}

// Taken implements framework.GroupSlices.
func (g *groupSlices) Taken() bool { return g.taken }

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
		g.taken = true
		g.scheduleOne(g.inFlight.ctx, attempt, g)
	}
}

// preempts reports whether a pod that is tried now may preempt others. g may be nil, for a pod that
// is tried between two attempts.
func (g *groupSlices) preempts() bool { return g == nil || !g.holding }

// release tries the pods again that were refused while pods of the group, or what was reserved for
// them, counted, at the end of the group's attempt: they may preempt others now, and fit if pods of
// the group go to no node.
func (g *groupSlices) release(ctx context.Context) {
	if len(g.refused) > 0 {
		g.queue.Activate(ctx, g.refused)
		klog.FromContext(ctx).V(1).Info("Pods that were refused while the group held resources are tried again", "pods", len(g.refused))
	}
}

// took returns the time since start that the loop spent on the group.
func (g *groupSlices) took(start time.Time) time.Duration {
	return g.options.Clock.Since(start) - g.others
}
