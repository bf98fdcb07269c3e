package scheduler

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
)

// run is the scheduling loop: it pops one pod or group after the other until ctx ends. One that
// was popped is scheduled under the context of inFlight, which ends later.
func (s *Scheduler) run(ctx context.Context) {
	for {
		// 1. The queue pops the next pod.
		attempt := s.queue.Pop(ctx)
		if attempt == nil {
			return
		}
		if attempt.Group != nil {
			s.scheduleGroup(ctx, attempt)
		} else {
			s.scheduleOne(s.inFlight.ctx, attempt, nil)
		}
	}
}

// scheduleOne takes one pod through steps 2 to 6. The binding cycle, and an attempt that
// the loop abandoned, go on in goroutines of their own, which record the result (step 6).
// between are the slices of the group that is being decided; nil where there is none.
func (s *Scheduler) scheduleOne(ctx context.Context, attempt *queue.Attempt, between *groupSlices) {
	ctx = withPodLogger(ctx, attempt.Pod)
	heartbeat := s.progress.begin(attempt.Pod, s.options.Clock.Now())
	defer s.progress.end()

	// 2. The pod's profile: its current generation, with one more reference.
	generation, ok := s.acquireGeneration(attempt.Pod.Spec.SchedulerName, attempt.AdmittedBy)
	if !ok {
		attempt.Return(ctx)
		return
	}
	t := newSchedulingCycle(attempt, generation, heartbeat)
	if s.skipPodSchedule(t) {
		attempt.Done()
		generation.Release()
		return
	}
	t.mayPreempt = between.preempts()
	ctx = s.startTrace(ctx, t)

	// 3. Within an attempt the snapshot changes here and nowhere else.
	snapshot := s.cache.UpdateSnapshot()
	s.numberAttempt(t)

	finished, err := s.runPluginSteps(ctx, t, func(ctx context.Context, c *cycle.Cycle) error {
		// 4. cycle.Run chooses a node; if none fits, PostFilter plugins may nominate one.
		if err := s.selectNode(ctx, t, snapshot, c); err != nil {
			return err
		}
		// 5. binding.Begin assumes the pod on the node and runs Reserve and Permit.
		return s.beginBinding(ctx, t)
	})
	s.queue.RecordLoopTime(attempt.Pod.Spec.SchedulerName, s.options.Clock.Since(t.start), 1)
	if !t.mayPreempt && (!finished || cycle.IsUnschedulable(err)) {
		between.refused[string(attempt.Pod.UID)] = attempt.Pod
	}

	// 6. The result is recorded: now after a failure, else at the end of the binding cycle.
	switch {
	case !finished:
	case err != nil:
		s.handleSchedulingFailure(ctx, t, err)
		s.release(t)
	default:
		s.startBindingCycle(ctx, t)
	}
}

// schedulingCycle is one attempt to schedule a pod, from step 2 to step 6.
type schedulingCycle struct {
	*queue.Attempt
	generation *profile.Generation
	state      *framework.CycleState
	podInfo    *framework.PodInfo
	placement  *cycle.Placement
	walk       decision.Walk
	// topNodes are the best nodes, copied in the scheduling cycle: later the snapshot
	// may lack a node that was scored.
	topNodes   []decision.NodeScore
	assignment *binding.Assignment
	start      time.Time
	// heartbeat is the loop's record of the cycle; nil for a cycle that only records the
	// failure of an abandoned attempt.
	heartbeat *heartbeat
	// cancel ends the context of an asynchronous attempt; nil for others.
	cancel context.CancelCauseFunc
	// mayPreempt says that PostFilter plugins are called where no node fits.
	mayPreempt bool
	// nodeCount is the number of nodes in the snapshot. explanation is what the scheduling
	// cycle found out about its failure; may be nil.
	nodeCount   int
	explanation *decision.Explanation
	// group is what the explanation says about the pod's group; nil for a pod on its own.
	// groupPreemption is the outcome of preemption for the group; nil where it waits for no
	// victims.
	group           *v1alpha1.DecisionGroup
	groupPreemption *v1alpha1.PreemptionResult
	// span is the attempt's; nil where it is not traced.
	span trace.Span
	// nominatingInfo replaces the pod's nominated node after a failure; nil keeps it.
	nominatingInfo *fwk.NominatingInfo
}

// clearNominatedNode removes a nomination.
var clearNominatedNode = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}

func newSchedulingCycle(attempt *queue.Attempt, generation *profile.Generation, h *heartbeat) *schedulingCycle {
	h.framework.Store(generation.Framework)
	return &schedulingCycle{
		Attempt: attempt, generation: generation, state: framework.NewCycleState(),
		start: h.start, heartbeat: h, nominatingInfo: clearNominatedNode,
	}
}

// release ends the trace and the context of a cycle, and releases its generation.
func (s *Scheduler) release(t *schedulingCycle) {
	s.endTrace(t)
	if t.cancel != nil {
		t.cancel(nil)
	}
	t.generation.Release()
}

// withPodLogger adds the pod and its profile to the context's logger.
func withPodLogger(ctx context.Context, pod *v1.Pod) context.Context {
	return klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "profile", pod.Spec.SchedulerName))
}

// acquireGeneration returns the generation that runs as the named profile. It returns false
// when none does, or when another generation admitted the pod to the active queue: the new
// one may have a PreEnqueue plugin that gates it.
func (s *Scheduler) acquireGeneration(name, admittedBy string) (*profile.Generation, bool) {
	generation, ok := s.profiles.Acquire(name)
	if !ok {
		return nil, false
	}
	if admittedBy != generation.Blueprint().Hash {
		generation.Release()
		return nil, false
	}
	return generation, true
}

// skipPodSchedule reports whether the pod must not be scheduled: it is being deleted, or
// it is assumed or bound.
func (s *Scheduler) skipPodSchedule(t *schedulingCycle) bool {
	if t.Pod.DeletionTimestamp != nil {
		t.generation.Framework.EventRecorder().Eventf(t.Pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling",
			"skip schedule deleting pod: %v/%v", t.Pod.Namespace, t.Pod.Name)
		return true
	}
	return s.cache.IsAssigned(t.Pod.UID)
}

// numberAttempt gives the attempt its number, and samples it for plugin metrics.
func (s *Scheduler) numberAttempt(t *schedulingCycle) {
	s.attemptCount++
	t.walk.Seq = s.attemptCount
	t.state.SetRecordPluginMetrics(s.attemptCount%framework.SampleEvery == 0)
}

// runPluginSteps runs the steps in the loop's goroutine, or asynchronously where the
// profile has out-of-tree plugins; see runAsync.
func (s *Scheduler) runPluginSteps(ctx context.Context, t *schedulingCycle, steps pluginSteps) (finished bool, err error) {
	if t.generation.Framework.HasOutOfTreePlugins() {
		return s.runAsync(ctx, t, steps)
	}
	return true, steps(ctx, &s.cycle)
}

// selectNode is step 4. It advances c, and sets the cycle's placement.
func (s *Scheduler) selectNode(ctx context.Context, t *schedulingCycle, snapshot *cache.Snapshot, c *cycle.Cycle) error {
	equivalenceCache := t.generation.EquivalenceCache()
	var err error
	if t.podInfo, err = equivalenceCache.PodInfo(t.Pod); err != nil {
		// The API server should not have admitted the pod's affinity terms. Like
		// kube-scheduler, go on without them.
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
		EquivalenceCache:         equivalenceCache,
	}
	t.placement, err = c.Run(ctx, request)
	if err != nil {
		s.runPostFilter(ctx, t, err)
	}
	if abandoned := framework.CheckAbandoned(t.state); abandoned != nil {
		return abandoned
	}
	algorithmDuration.Observe(s.options.Clock.Since(t.start).Seconds())
	if err != nil {
		s.explainInCycle(ctx, t, request, err)
		return err
	}
	t.SetNodeChosen()
	if blueprint.Decisions.Nodes {
		// The next cycle overwrites the scores.
		t.topNodes = t.placement.Top(blueprint.Decisions.TopScores)
	}
	return nil
}

// runPostFilter runs the PostFilter plugins for a pod that no node fits, and keeps their
// nomination and message for handleSchedulingFailure.
func (s *Scheduler) runPostFilter(ctx context.Context, t *schedulingCycle, err error) {
	var fitErr *framework.FitError
	f := t.generation.Framework
	if !errors.As(err, &fitErr) || !f.HasPostFilterPlugins() {
		return
	}
	if !t.mayPreempt {
		t.nominatingInfo = nil // its victims may be on their way out
		fitErr.Diagnosis.PostFilterMsg = "preemption: waits until the group is decided that holds resources meanwhile"
		return
	}
	result, status := f.RunPostFilterPlugins(ctx, t.state, t.Pod, fitErr.Diagnosis.NodeToStatus)
	if framework.CheckAbandoned(t.state) != nil {
		return // the queue has the pod again
	}
	fitErr.Diagnosis.PostFilterMsg = status.Message()
	var noVictims *framework.FitError
	if search := t.state.Preemption(); search != nil && errors.As(search.Err, &noVictims) {
		t.SetFurtherRejectors(remainingRejectors(noVictims.Diagnosis))
	}
	if status.IsError() {
		klog.FromContext(ctx).Error(status.AsError(), "PostFilter failed")
	}
	t.nominatingInfo = nil
	if result != nil {
		t.nominatingInfo = result.NominatingInfo
	}
	if status.IsSuccess() && t.nominatingInfo.Mode() == fwk.ModeOverride {
		// The plugin that nominated the node also knows the events that requeue the pod.
		fitErr.Diagnosis.UnschedulablePlugins.Insert(status.Plugin())
	}
}

// beginBinding is step 5. On success the pod is assumed, reserved, and permitted or
// waiting on Permit.
func (s *Scheduler) beginBinding(ctx context.Context, t *schedulingCycle) error {
	t.assignment = &binding.Assignment{
		Framework: t.generation.Framework, State: t.state, Info: t.podInfo, Node: t.placement.Node,
		StopRecordingEvents: func() {
			t.StopRecordingEvents()
			s.explainPassed(t)
		},
	}
	err := s.beginAssignment(ctx, t)
	// The event handler of the deletion may have run before the pod was assumed, or waited on
	// Permit.
	switch pod, exists := t.Current(); {
	case !exists:
		s.pendingPods.RejectWaitingPod(t.Pod) // it may be bound, and keep its resources
	case pod.DeletionTimestamp != nil:
		s.pendingPods.EndAssumption(ctx, pod)
	}
	if err == nil {
		// Reserve has chosen the pod's devices, which the annotation names.
		t.assignment.Annotations = s.decisionAnnotation(t)
		s.explainPermitWait(t)
	}
	return err
}

// beginAssignment is binding.Begin. It wakes the pods that may use the resources of the pod's
// nominated node where the pod does not go there.
func (s *Scheduler) beginAssignment(ctx context.Context, t *schedulingCycle) (err error) {
	nominated, begun := s.cache.NominatedNode(t.Pod.UID), false
	// Deferred, for a plugin that ends its goroutine.
	defer func() {
		if nominated != "" && (!begun || nominated != t.placement.Node) && s.cache.NominatedNode(t.Pod.UID) == "" {
			// No update of the pod may say so: its status may keep the old name.
			s.pendingPods.NominationFreed(ctx, t.Pod, nominated)
		}
	}()
	err = s.binding.Begin(ctx, t.assignment)
	begun = err == nil
	return err
}

// decisionAnnotation returns the annotation that the Binding carries; nil where the
// profile wants none. A pod that its author gave this annotation gets it in any case: a
// Binding can replace an annotation, but not remove it.
func (s *Scheduler) decisionAnnotation(t *schedulingCycle) map[string]string {
	blueprint := t.generation.Blueprint()
	_, forged := t.Pod.Annotations[v1alpha1.AnnotationDecision]
	if !blueprint.Decisions.Annotate && !forged {
		return nil
	}
	d := s.newDecision(t, nil)
	if !blueprint.Decisions.Nodes {
		d = d.WithoutNodes()
	}
	return map[string]string{v1alpha1.AnnotationDecision: decision.Annotation(d)}
}
