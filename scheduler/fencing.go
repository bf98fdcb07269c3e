package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/journal"
)

var (
	fencedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_handover_fenced_pods",
		Help: "[ALPHA] Waiting pods whose status this leader wrote before its first decision, so that no Binding of an earlier leader takes effect, by reason: fresh (they carry no refusal), journal (a Binding of them was under way), unknown (there was no journal of the leader before).",
	}, []string{"reason"})
	handoverDuration = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_handover_duration_seconds",
		Help: "[ALPHA] Time from when this process began to lead until it began to decide.",
	})
)

// fencing is what a new leader has to fence, and why.
type fencing struct {
	pods []*v1.Pod
	// fresh, journaled and unknown are how many of them are fenced for which reason.
	fresh, journaled, unknown int
	// caughtUp is how long the informers took before.
	caughtUp time.Duration
}

// commits is where a Binding is committed before it is sent, nil where no leader comes
// after this one.
func (s *Scheduler) bindingJournal() binding.Journal {
	if s.options.Handover.Journal == nil {
		return nil
	}
	return s.options.Handover.Journal
}

// takeJournal takes the journal over and returns what is to be fenced. It reports
// false when ctx ends first.
func (s *Scheduler) takeOverJournal(ctx context.Context) (journal.Handover, bool) {
	takeover := s.options.Handover
	if takeover.Journal == nil {
		return journal.Handover{Fence: journal.FenceAll}, true
	}
	leadership, ok := retry(ctx, s, takeover.Leadership)
	if !ok {
		return journal.Handover{}, false
	}
	if leadership.First && s.hasDecisionAnnotations() {
		// The Lease and the journal are gone, and a leader was here: nobody knows
		// what it has sent.
		leadership.First = false
	}
	told, ok := takeover.Journal.TakeOver(ctx, leadership)
	if fault.EveryPodFenced {
		told.Fence = journal.FenceAll
	}
	return told, ok
}

// showsDecisions says whether a pod carries the record of a decision.
func (s *Scheduler) hasDecisionAnnotations() bool {
	return slices.ContainsFunc(s.allPods(), func(pod *v1.Pod) bool { return pod.Annotations[decision.AnnotationKey] != "" })
}

// toFence are the pods that a Binding of an earlier leader may still bind. API servers
// bind none that has a node, is being deleted, or is gated.
func (s *Scheduler) podsToFence(profiles []string, told journal.Handover) (f fencing) {
	profiles = append(profiles, s.profiles.Names()...)
	for _, pod := range s.allPods() {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		ours := slices.Contains(profiles, pod.Spec.SchedulerName)
		switch {
		case told.Pods.Has(pod.UID):
			f.journaled++
		case ours && told.Fence == journal.FenceAll:
			f.unknown++
		case ours && !binding.HasPodScheduledFalse(pod):
			f.fresh++
		default:
			continue
		}
		f.pods = append(f.pods, pod)
	}
	return f
}

func (s *Scheduler) allPods() []*v1.Pod {
	pods, err := s.options.Informers.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		s.options.Log.Error(err, "Cannot list pods")
	}
	return pods
}

// tookOver says what the handover took, and tells the journal that it is over.
func (s *Scheduler) recordHandover(began time.Time, told journal.Handover, f fencing, came binding.FenceResult) {
	if s.options.Handover.Journal != nil {
		s.options.Handover.Journal.Fenced(came.Unfenced)
	}
	took := s.options.Clock.Since(began)
	fencedPods.WithLabelValues("fresh").Set(float64(f.fresh))
	fencedPods.WithLabelValues("journal").Set(float64(f.journaled))
	fencedPods.WithLabelValues("unknown").Set(float64(f.unknown))
	handoverDuration.Set(took.Seconds())
	if told.Err != nil {
		s.options.Log.Error(told.Err, "The journal of Bindings cannot be written: each new leader fences every pod that waits", "configMap", journal.Name)
	}
	s.options.Log.Info("Took over", "epoch", s.epoch, "fence", told.Fence, "caughtUpAfter", f.caughtUp, "marked", came.Fenced,
		"fresh", f.fresh, "inJournal", f.journaled, "unknown", f.unknown, "boundMeanwhile", len(came.Bound), "took", took)
}
