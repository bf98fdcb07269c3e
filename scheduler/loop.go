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
type turn struct {
	*queue.Attempt
	generation *profile.Generation
	state      *framework.CycleState
	placement  *cycle.Placement
	walk       decision.Walk
	// top are the best nodes. They are noted in the loop: beside it the
	// snapshot moves, and a node that was scored may be gone.
	top    []decision.NodeScore
	flight *binding.Flight
	begin  time.Time
	// beat is the loop's note of the turn; nil beside the loop.
	beat *beat
	// end ends the context that plugins were given in the turn; may be nil.
	end context.CancelCauseFunc
	// nodes is how many there were, why what is known of a refusal by the cycle
	// for its explanation; may be nil.
	nodes int
	why   *decision.Explanation
	// span is the attempt's; nil where it is not traced.
	span trace.Span
	// nominate replaces the pod's nominated node after a refusal; nil leaves
	// it as it is.
	nominate *fwk.NominatingInfo
}

// nominateNone takes a nomination back.
var nominateNone = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}

// schedule takes one pod through steps 2 to 5, and hands the rest to land.
func (s *Scheduler) schedule(ctx context.Context, attempt *queue.Attempt) {
	pod := attempt.Pod
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "profile", pod.Spec.SchedulerName)
	ctx = klog.NewContext(ctx, logger)

	beat := s.pulse.begins(pod, s.options.Clock.Now())
	defer s.pulse.rests()
	generation, ok := s.profiles.Acquire(pod.Spec.SchedulerName)
	if !ok {
		attempt.Return(ctx)
		return
	}
	if attempt.Admitted != generation.Blueprint().Hash && !fault.NewGatePassed && !fault.NaiveSwap {
		// A swap came after the pod was let in, and may have brought a gate.
		generation.Release()
		attempt.Return(ctx)
		return
	}
	t := &turn{
		Attempt: attempt, generation: generation, state: framework.NewCycleState(),
		begin: beat.begin, beat: beat, nominate: nominateNone,
	}
	beat.framework.Store(generation.Framework)
	if s.nobodysBusiness(t) {
		attempt.Done()
		generation.Release()
		return
	}
	ctx = s.trace(ctx, t)
	err, here := s.try(ctx, t)
	s.queue.Spent(pod.Spec.SchedulerName, s.options.Clock.Since(t.begin))
	switch {
	case !here:
		return
	case err != nil:
		s.refuse(ctx, t, err)
		s.release(t)
		return
	}
	s.flights.Add(1)
	bindings.Inc()
	s.options.Go(func() {
		defer s.flights.Done()
		defer bindings.Dec()
		defer s.release(t)
		s.land(ctx, t)
	})
}

// release gives back what the turn holds, which is over.
func (s *Scheduler) release(t *turn) {
	s.endTrace(t)
	if t.end != nil {
		t.end(nil)
	}
	t.generation.Release()
}

// nobodysBusiness says whether the pod must not be scheduled at all: it is
// being deleted, its last attempt is still on its way, or it has a node.
func (s *Scheduler) nobodysBusiness(t *turn) bool {
	if t.Pod.DeletionTimestamp != nil {
		t.generation.Framework.EventRecorder().Eventf(t.Pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling",
			"skip schedule deleting pod: %v/%v", t.Pod.Namespace, t.Pod.Name)
		return true
	}
	return s.cache.Placed(t.Pod.UID) && !fault.PlacedPodTried
}

// try finds a node and claims it in memory. It reports false when the turn goes
// on without the loop.
func (s *Scheduler) try(ctx context.Context, t *turn) (err error, here bool) {
	snapshot := s.cache.Refresh()
	s.attempts++
	t.walk.Seq = s.attempts
	t.state.SetRecordPluginMetrics(s.attempts%framework.SampleEvery == 0 && !fault.PluginsUntimed)
	if t.generation.Framework.Watched() {
		return s.placeBeside(ctx, t, snapshot)
	}
	return s.place(ctx, t, snapshot, &s.cycle), true
}

// place finds a node and claims it in memory. c is moved on.
func (s *Scheduler) place(ctx context.Context, t *turn, snapshot *cache.Snapshot, c *cycle.Cycle) error {
	memo := t.generation.Memo()
	info, err := memo.PodInfo(t.Pod)
	if err != nil {
		// The pod has affinity terms that no API server should have let in.
		// Upstream goes on without them; so do we.
		klog.FromContext(ctx).Error(err, "The pod's affinity is malformed; scheduling without the malformed terms")
	}
	blueprint := t.generation.Blueprint()
	t.nodes = snapshot.Len()
	seen := snapshot.Seen()
	t.walk.Start, t.walk.Order, t.walk.Nodes, t.walk.Pods = c.Start(), snapshot.OrderSum(), seen.Nodes, seen.Pods
	request := cycle.Request{
		Framework:                t.generation.Framework,
		PercentageOfNodesToScore: blueprint.PercentageOfNodesToScore,
		Pod:                      t.Pod,
		Snapshot:                 snapshot,
		State:                    t.state,
		Memo:                     memo,
	}
	t.placement, err = c.Run(ctx, request)
	if err != nil {
		s.makeRoom(ctx, t, err)
	}
	algorithmDuration.Observe(s.options.Clock.Since(t.begin).Seconds())
	if err != nil {
		s.findOutWhy(ctx, t, request, err)
		return err
	}
	t.Chose()
	if blueprint.Decisions.Nodes || fault.AnnotationNamesNodes {
		// Scores are good for this turn only.
		t.top = t.placement.Top(blueprint.Decisions.TopScores)
	}
	t.flight = &binding.Flight{
		Framework: t.generation.Framework, State: t.state, Info: info, Node: t.placement.Node, Deaf: t.Deaf,
	}
	// What the pod's author wrote under that name must not be taken for Berth's,
	// and a Binding can replace it but not remove it.
	_, forged := t.Pod.Annotations[decision.AnnotationKey]
	if blueprint.Decisions.Annotate || forged {
		d := s.decided(t, nil)
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
		s.intake.RoomReturned(ctx, t.Pod, promised)
	}
	if pod, here := t.Current(); !here || pod.DeletionTimestamp != nil {
		// Who was told of it may have found nobody at Permit yet.
		s.intake.StopWaiting(t.Pod)
	}
	if err == nil {
		s.explainWait(t)
	}
	return err
}

// makeRoom asks the PostFilter plugins, when the pod fits nowhere, whether
// they can make it fit, and keeps what they say for the refusal.
func (s *Scheduler) makeRoom(ctx context.Context, t *turn, err error) {
	var unfit *framework.FitError
	f := t.generation.Framework
	if !errors.As(err, &unfit) || !f.HasPostFilterPlugins() {
		return
	}
	result, status := f.RunPostFilterPlugins(ctx, t.state, t.Pod, unfit.Diagnosis.Refusals)
	unfit.Diagnosis.PostFilterMessage = status.Message()
	if others, err := t.state.Read(stillRefuseKey); err == nil {
		t.StillRefused(others.(pluginNames).Set)
	}
	if status.IsError() {
		klog.FromContext(ctx).Error(status.AsError(), "Making room failed")
	}
	t.nominate = nil
	if result != nil {
		t.nominate = result.NominatingInfo
	}
	if status.IsSuccess() && t.nominate.Mode() == fwk.ModeOverride {
		// Whoever makes room knows when there is some.
		unfit.Diagnosis.Unschedulable.Insert(status.Plugin())
	}
}

// land binds the pod, beside the loop.
func (s *Scheduler) land(ctx context.Context, t *turn) {
	end := s.oversee(ctx, t)
	err := s.binding.Finish(ctx, t.flight)
	end()
	switch {
	case err == nil:
		s.bound(ctx, t)
	case errors.Is(err, binding.ErrGone):
		klog.FromContext(ctx).V(1).Info("Not bound: the pod is gone or elsewhere", "node", t.flight.Node)
		t.traceResult(gone)
		t.Done()
		s.freed(ctx, t, nil)
	default:
		// Before the pod is put back: the freed room is older than that.
		s.freed(ctx, t, err)
		s.refuse(ctx, t, err)
	}
}
