// Package unserved reports pods that wait for a scheduler that is not there:
// nobody else tells them, since no scheduler looks at a pod of another's name.
package unserved

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// Patience is how long a pod may go without a word from any scheduler.
	ReportAfter = 60 * time.Second
	// pause is how often pods are looked at.
	checkInterval = 10 * time.Second
	// eventsAtOnce bounds the Events of one look; the others' turn comes.
	maxEventsPerCheck = 20
	// namesCounted bounds the values of the gauge's label.
	maxNames = 20
)

// manyNames is the label of the pods beyond namesCounted.
const otherNames = "(others)"

var unservedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "berth_unserved_pods",
	Help: "[ALPHA] Pods whose spec.schedulerName no scheduler seems to serve, by schedulerName: 20 names, and (others) for the rest.",
}, []string{"scheduler_name"})

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{unservedPods} }

// Options are what a Watch is made from. All fields are required.
type Options struct {
	// Pods holds every pod that has not ended.
	Pods corelisters.PodLister
	// Synced says whether Pods does.
	Synced func() bool
	// Served are the names of the profiles that run.
	Served func() []string
	// Others are the names that other schedulers are known to serve.
	OtherSchedulers []string
	// HeldFor are the reasons of PodScheduled with which Berth holds pods of a profile.
	HoldReasons []string
	// Exists says whether there is a profile of a name. The error says that it cannot be
	// known now.
	ProfileExists func(ctx context.Context, name string) (bool, error)
	// Gone holds the pods of a profile that was deleted when no process of Berth ran, or
	// before this one did.
	HoldDeleted func(name string)
	// Nearest returns the one of the names that was most likely meant; empty
	// for none.
	ClosestName func(name string, among []string) string
	Recorder    events.EventRecorder
	Clock       clock.Clock
	Log         logr.Logger
}

// Watch looks for such pods in the leader.
type Reporter struct {
	options Options
	// told are the pods that carry an Event and still wait.
	reported sets.Set[types.UID]
	// gone are the names of which Gone was called, while pods of them are held.
	deletedProfiles sets.Set[string]
}

// New returns a Watch that has looked at nothing yet.
func New(o Options) *Reporter {
	return &Reporter{options: o, reported: sets.New[types.UID](), deletedProfiles: sets.New[string]()}
}

// NeedLeaderElection keeps followers from telling the same.
func (w *Reporter) NeedLeaderElection() bool { return true }

// Start looks until ctx ends.
func (w *Reporter) Start(ctx context.Context) error {
	defer unservedPods.Reset()
	for {
		if w.options.Synced() {
			w.check(ctx)
		}
		timer := w.options.Clock.NewTimer(checkInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// look tells the pods that nobody serves, the oldest first, and counts them.
func (w *Reporter) check(ctx context.Context) {
	pods, err := w.options.Pods.List(labels.Everything())
	if err != nil {
		w.options.Log.Error(err, "Cannot look for pods that nobody serves")
		return
	}
	served := w.options.Served()
	known := sets.New(append(slices.Clone(served), w.options.OtherSchedulers...)...)
	w.holdDeletedProfiles(ctx, pods, known)
	alone := findUnserved(pods, known, w.options.Clock.Now())
	setGauge(alone)
	waiting, events := sets.New[types.UID](), 0
	for _, pod := range alone {
		waiting.Insert(pod.UID)
		if w.reported.Has(pod.UID) || events == maxEventsPerCheck {
			continue
		}
		events++
		w.reported.Insert(pod.UID)
		w.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "NameNotServed", "Scheduling", "%s", w.note(pod.Spec.SchedulerName, served))
	}
	w.reported = w.reported.Intersection(waiting)
}

// lookForGone calls Gone for the profiles that do not exist and of which pods say that they
// are held: who was told so by an earlier process would not be counted, nor hear that the
// profile is gone.
func (w *Reporter) holdDeletedProfiles(ctx context.Context, pods []*v1.Pod, known sets.Set[string]) {
	names := sets.New[string]()
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !known.Has(pod.Spec.SchedulerName) && w.isHeld(pod) {
			names.Insert(pod.Spec.SchedulerName)
		}
	}
	w.deletedProfiles = w.deletedProfiles.Intersection(names)
	for _, name := range sets.List(names.Difference(w.deletedProfiles)) {
		exists, err := w.options.ProfileExists(ctx, name)
		if err != nil {
			w.options.Log.Error(err, "Cannot look whether a profile was deleted", "schedulingProfile", name)
			return
		}
		if !exists && !fault.EarlierHoldsForgotten {
			w.options.HoldDeleted(name)
			w.deletedProfiles.Insert(name)
		}
	}
}

func (w *Reporter) isHeld(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && slices.Contains(w.options.HoldReasons, c.Reason)
	})
}

func (w *Reporter) note(name string, served []string) string {
	note := fmt.Sprintf("no scheduler has looked at the pod for %v: no SchedulingProfile that runs is called %q", ReportAfter, name)
	if nearest := w.options.ClosestName(name, served); nearest != "" {
		note += fmt.Sprintf(", did you mean %q?", nearest)
	}
	return note + "; a name that another scheduler serves belongs in the manager's --other-schedulers"
}

// find returns the pods that wait since long enough for a name that is not
// known, and that no bound pod carries: who bound that one serves the name.
func findUnserved(pods []*v1.Pod, known sets.Set[string], now time.Time) []*v1.Pod {
	var alone []*v1.Pod
	served := sets.New[string]()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			served.Insert(pod.Spec.SchedulerName)
		}
	}
	for _, pod := range pods {
		name := pod.Spec.SchedulerName
		if IsUnserved(pod, now) && !known.Has(name) && !served.Has(name) {
			alone = append(alone, pod)
		}
	}
	slices.SortFunc(alone, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return alone
}

// IsAlone says whether a pod has waited for Patience, and no scheduler, and no gate,
// has told it why.
func IsUnserved(pod *v1.Pod, now time.Time) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) >= ReportAfter &&
		!slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
}

func setGauge(alone []*v1.Pod) {
	names := map[string]int{}
	for _, pod := range alone {
		name := pod.Spec.SchedulerName
		if _, counted := names[name]; !counted && len(names) >= maxNames {
			name = otherNames
		}
		names[name]++
	}
	unservedPods.Reset()
	for name, n := range names {
		unservedPods.WithLabelValues(name).Set(float64(n))
	}
}
