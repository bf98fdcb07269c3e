package scheduler

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
)

// turn is one attempt on its way through the six steps.
type schedulingCycle struct {
	*queue.Attempt
	generation *profile.Generation
	state      *framework.CycleState
	placement  *cycle.Placement
	walk       decision.Walk
	// top are the best nodes. They are noted in the loop: beside it the
	// snapshot moves, and a node that was scored may be gone.
	topNodes []decision.NodeScore
	flight   *binding.Assignment
	start    time.Time
	// beat is the loop's note of the turn; nil beside the loop.
	heartbeat *heartbeat
	// end ends the context that plugins were given in the turn; may be nil.
	cancel context.CancelCauseFunc
	// nodes is how many there were, why what is known of a refusal by the cycle
	// for its explanation; may be nil.
	nodeCount   int
	explanation *decision.Explanation
	// span is the attempt's; nil where it is not traced.
	span trace.Span
	// nominate replaces the pod's nominated node after a refusal; nil leaves
	// it as it is.
	nominatingInfo *fwk.NominatingInfo
}

// nominateNone takes a nomination back.
var clearNominatedNode = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}

// schedule takes one pod through steps 2 to 5, and hands the rest to land.
func (s *Scheduler) scheduleOne(ctx context.Context, attempt *queue.Attempt) {
	pod := attempt.Pod
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "profile", pod.Spec.SchedulerName)
	ctx = klog.NewContext(ctx, logger)

	beat := s.progress.begin(pod, s.options.Clock.Now())
	defer s.progress.end()
	generation, ok := s.profiles.Acquire(pod.Spec.SchedulerName)
	if !ok {
		attempt.Return(ctx)
		return
	}
	if attempt.AdmittedBy != generation.Blueprint().Hash && !fault.NewGatePassed && !fault.NaiveSwap {
		// A swap came after the pod was let in, and may have brought a gate.
		generation.Release()
		attempt.Return(ctx)
		return
	}
	t := &schedulingCycle{
		Attempt: attempt, generation: generation, state: framework.NewCycleState(),
		start: beat.start, heartbeat: beat, nominatingInfo: clearNominatedNode,
	}
	beat.framework.Store(generation.Framework)
	if s.skipPodSchedule(t) {
		attempt.Done()
		generation.Release()
		return
	}
	ctx = s.startTrace(ctx, t)
	err, here := s.runSchedulingCycle(ctx, t)
	s.queue.RecordLoopTime(pod.Spec.SchedulerName, s.options.Clock.Since(t.start))
	switch {
	case !here:
		return
	case err != nil:
		s.handleSchedulingFailure(ctx, t, err)
		s.release(t)
		return
	}
	s.inFlight.Add(1)
	bindingGoroutines.Inc()
	s.options.Go(func() {
		defer s.inFlight.Done()
		defer bindingGoroutines.Dec()
		defer s.release(t)
		s.bindingCycle(ctx, t)
	})
}

// release gives back what the turn holds, which is over.
func (s *Scheduler) release(t *schedulingCycle) {
	s.endTrace(t)
	if t.cancel != nil {
		t.cancel(nil)
	}
	t.generation.Release()
}

// nobodysBusiness says whether the pod must not be scheduled at all: it is
// being deleted, its last attempt is still on its way, or it has a node.
func (s *Scheduler) skipPodSchedule(t *schedulingCycle) bool {
	if t.Pod.DeletionTimestamp != nil {
		t.generation.Framework.EventRecorder().Eventf(t.Pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling",
			"skip schedule deleting pod: %v/%v", t.Pod.Namespace, t.Pod.Name)
		return true
	}
	return s.cache.IsAssigned(t.Pod.UID) && !fault.PlacedPodTried
}

// try finds a node and claims it in memory. It reports false when the turn goes
// on without the loop.
func (s *Scheduler) runSchedulingCycle(ctx context.Context, t *schedulingCycle) (err error, here bool) {
	snapshot := s.cache.UpdateSnapshot()
	s.attemptCount++
	t.walk.Seq = s.attemptCount
	t.state.SetRecordPluginMetrics(s.attemptCount%framework.SampleEvery == 0 && !fault.PluginsUntimed)
	if t.generation.Framework.HasOutOfTreePlugins() {
		return s.runSchedulingAsync(ctx, t, snapshot)
	}
	return s.schedulePod(ctx, t, snapshot, &s.cycle), true
}

// place finds a node and claims it in memory. c is moved on.
func (s *Scheduler) schedulePod(ctx context.Context, t *schedulingCycle, snapshot *cache.Snapshot, c *cycle.Cycle) error {
	memo := t.generation.EquivalenceCache()
	info, err := memo.PodInfo(t.Pod)
	if err != nil {
		// The pod has affinity terms that no API server should have let in.
		// Upstream goes on without them; so do we.
		klog.FromContext(ctx).Error(err, "The pod's affinity is malformed; scheduling without the malformed terms")
	}
	blueprint := t.generation.Blueprint()
	t.nodeCount = snapshot.Len()
	seen := snapshot.ResourceVersions()
	t.walk.Start, t.walk.Order, t.walk.Nodes, t.walk.Pods = c.NextStartNodeIndex(), snapshot.NodeOrderChecksum(), seen.Nodes, seen.Pods
	request := cycle.Request{
		Framework:                t.generation.Framework,
		PercentageOfNodesToScore: blueprint.PercentageOfNodesToScore,
		Pod:                      t.Pod,
		Snapshot:                 snapshot,
		State:                    t.state,
		EquivalenceCache:         memo,
	}
	t.placement, err = c.Run(ctx, request)
	if err != nil {
		s.runPostFilter(ctx, t, err)
	}
	algorithmDuration.Observe(s.options.Clock.Since(t.start).Seconds())
	if err != nil {
		s.explainInCycle(ctx, t, request, err)
		return err
	}
	t.SetNodeChosen()
	if blueprint.Decisions.Nodes || fault.AnnotationNamesNodes {
		// Scores are good for this turn only.
		t.topNodes = t.placement.Top(blueprint.Decisions.TopScores)
	}
	t.flight = &binding.Assignment{
		Framework: t.generation.Framework, State: t.state, Info: info, Node: t.placement.Node, StopRecordingEvents: t.StopRecordingEvents,
	}
	// What the pod's author wrote under that name must not be taken for Berth's,
	// and a Binding can replace it but not remove it.
	_, forged := t.Pod.Annotations[decision.AnnotationKey]
	if blueprint.Decisions.Annotate || forged {
		d := s.newDecision(t, nil)
		if !blueprint.Decisions.Nodes {
			d = d.WithoutNodes()
		}
		t.flight.Annotations = map[string]string{decision.AnnotationKey: decision.Annotation(d)}
	}
	promised := s.cache.NominatedNode(t.Pod.UID)
	err = s.binding.Begin(ctx, t.flight)
	if promised != "" && promised != t.placement.Node && s.cache.NominatedNode(t.Pod.UID) == "" {
		// It went elsewhere: the room that was kept for it is free. The API
		// server says nothing of it, since the promise may stay in the status.
		s.eventHandlers.NominationFreed(ctx, t.Pod, promised)
	}
	if pod, here := t.Current(); !here || pod.DeletionTimestamp != nil {
		// Who was told of it may have found nobody at Permit yet.
		s.eventHandlers.RejectWaitingPod(t.Pod)
	}
	if err == nil {
		s.explainPermitWait(t)
	}
	return err
}

// makeRoom asks the PostFilter plugins, when the pod fits nowhere, whether
// they can make it fit, and keeps what they say for the refusal.
func (s *Scheduler) runPostFilter(ctx context.Context, t *schedulingCycle, err error) {
	var unfit *framework.FitError
	f := t.generation.Framework
	if !errors.As(err, &unfit) || !f.HasPostFilterPlugins() {
		return
	}
	result, status := f.RunPostFilterPlugins(ctx, t.state, t.Pod, unfit.Diagnosis.NodeToStatus)
	unfit.Diagnosis.PostFilterMsg = status.Message()
	if others, err := t.state.Read(remainingRejectorsKey); err == nil {
		t.SetFurtherRejectors(others.(pluginNames).Set)
	}
	if status.IsError() {
		klog.FromContext(ctx).Error(status.AsError(), "Making room failed")
	}
	t.nominatingInfo = nil
	if result != nil {
		t.nominatingInfo = result.NominatingInfo
	}
	if status.IsSuccess() && t.nominatingInfo.Mode() == fwk.ModeOverride {
		// Whoever makes room knows when there is some.
		unfit.Diagnosis.UnschedulablePlugins.Insert(status.Plugin())
	}
}

// land binds the pod, beside the loop.
func (s *Scheduler) bindingCycle(ctx context.Context, t *schedulingCycle) {
	end := s.monitorBinding(ctx, t)
	err := s.binding.Finish(ctx, t.flight)
	end()
	switch {
	case err == nil:
		s.recordBound(ctx, t)
	case errors.Is(err, binding.ErrGone):
		klog.FromContext(ctx).V(1).Info("Not bound: the pod is gone or elsewhere", "node", t.flight.Node)
		t.traceResult(resultGone)
		t.Done()
		s.wakeForFreedResources(ctx, t, nil)
	default:
		// Before the pod is put back: the freed room is older than that.
		s.wakeForFreedResources(ctx, t, err)
		s.handleSchedulingFailure(ctx, t, err)
	}
}
