package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/journal"
)

var (
	fencedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_handover_fenced_pods",
		Help: "[ALPHA] Pending pods whose status this leader wrote before its first decision, so that no Binding of an earlier leader takes effect, by reason: fresh (the pod has no PodScheduled condition of False), journal (a Binding of the pod may have been in flight), unknown (the earlier leader left no journal).",
	}, []string{"reason"})
	handoverDuration = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_handover_duration_seconds",
		Help: "[ALPHA] Time from when this process became the leader until its first scheduling attempt could start.",
	})
)

// fencing is which pods a new leader has to fence, and why.
type fencing struct {
	pods []*v1.Pod
	// fresh, journaled and unknown count the pods by the reason of their fence, as in the
	// metric berth_handover_fenced_pods.
	fresh, journaled, unknown int
	// informersSynced is how long the informers took to hold the quorum list.
	informersSynced time.Duration
}

// bindingJournal returns the journal that records a Binding before it is sent; nil where
// no other process can lead.
func (s *Scheduler) bindingJournal() binding.Journal {
	if s.options.Handover.Journal == nil {
		return nil
	}
	return s.options.Handover.Journal
}

// takeOverJournal takes the journal over and returns which pods it says must be fenced.
func (s *Scheduler) takeOverJournal(ctx context.Context) (journal.Handover, bool) {
	handover := s.options.Handover
	if handover.Journal == nil {
		return journal.Handover{Fence: journal.FenceAll}, true
	}
	leadership, ok := retry(ctx, s, tryTimeout, handover.Leadership)
	if !ok {
		return journal.Handover{}, false
	}
	if leadership.First && s.hasDecisionAnnotations() {
		// The Lease and the journal were deleted, but there was a leader: its Bindings in
		// flight are unknown.
		leadership.First = false
	}
	return handover.Journal.TakeOver(ctx, leadership)
}

// hasDecisionAnnotations reports whether any pod carries Berth's decision annotation.
func (s *Scheduler) hasDecisionAnnotations() bool {
	return slices.ContainsFunc(s.allPods(), func(pod *v1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationDecision] != "" })
}

// podsToFence returns the pods that a Binding of an earlier leader may still bind. The
// API server refuses to bind a pod that has a node, is being deleted, or has scheduling
// gates.
func (s *Scheduler) podsToFence(profiles []string, taken takenOver) (f fencing) {
	fromJournal := taken.journal
	profiles = append(profiles, s.profiles.Names()...)
	for _, pod := range s.allPods() {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		ours := slices.Contains(profiles, pod.Spec.SchedulerName)
		switch {
		case fromJournal.Pods.Has(pod.UID):
			f.journaled++
		case ours && fromJournal.Fence == journal.FenceAll:
			f.unknown++
		case ours && !binding.HasPodScheduledFalse(pod):
			if taken.closedAt != "" && !atLeast(taken.closedAt, pod.ResourceVersion) {
				continue // a Binding that the earlier leader sent names another version
			}
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

// recordHandover sets the metrics of the handover, logs it, and tells the journal that
// the fences are written.
func (s *Scheduler) recordHandover(start time.Time, fromJournal journal.Handover, f fencing, result binding.FenceResult) {
	if s.options.Handover.Journal != nil {
		s.options.Handover.Journal.Fenced(result.Unfenced)
	}
	duration := s.options.Clock.Since(start)
	fencedPods.WithLabelValues("fresh").Set(float64(f.fresh))
	fencedPods.WithLabelValues("journal").Set(float64(f.journaled))
	fencedPods.WithLabelValues("unknown").Set(float64(f.unknown))
	handoverDuration.Set(duration.Seconds())
	if fromJournal.Err != nil {
		s.options.Log.Error(fromJournal.Err, "The journal of Bindings cannot be written: each new leader fences every pending pod", "configMap", journal.Name)
	}
	s.options.Log.Info("Leader handover is complete", "epoch", s.epoch, "fence", fromJournal.Fence, "informersSyncedAfter", f.informersSynced, "fenced", result.Fenced,
		"fresh", f.fresh, "inJournal", f.journaled, "unknown", f.unknown, "boundMeanwhile", len(result.Bound), "took", duration)
}
