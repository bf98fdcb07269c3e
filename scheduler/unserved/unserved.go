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
	Patience = 60 * time.Second
	// pause is how often pods are looked at.
	pause = 10 * time.Second
	// eventsAtOnce bounds the Events of one look; the others' turn comes.
	eventsAtOnce = 20
	// namesCounted bounds the values of the gauge's label.
	namesCounted = 20
)

// manyNames is the label of the pods beyond namesCounted.
const manyNames = "(others)"

var unservedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "berth_unserved_pods",
	Help: "[ALPHA] Pods whose spec.schedulerName no scheduler seems to serve, by that name: of 20 names, and of the others together.",
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
	Others []string
	// HeldFor are the reasons of PodScheduled with which Berth holds pods of a profile.
	HeldFor []string
	// Exists says whether there is a profile of a name. The error says that it cannot be
	// known now.
	Exists func(ctx context.Context, name string) (bool, error)
	// Gone holds the pods of a profile that was deleted when no process of Berth ran, or
	// before this one did.
	Gone func(name string)
	// Nearest returns the one of the names that was most likely meant; empty
	// for none.
	Nearest  func(name string, among []string) string
	Recorder events.EventRecorder
	Clock    clock.Clock
	Log      logr.Logger
}

// Watch looks for such pods in the leader.
type Watch struct {
	options Options
	// told are the pods that carry an Event and still wait.
	told sets.Set[types.UID]
	// gone are the names of which Gone was called, while pods of them are held.
	gone sets.Set[string]
}

// New returns a Watch that has looked at nothing yet.
func New(o Options) *Watch {
	return &Watch{options: o, told: sets.New[types.UID](), gone: sets.New[string]()}
}

// NeedLeaderElection keeps followers from telling the same.
func (w *Watch) NeedLeaderElection() bool { return true }

// Start looks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	defer unservedPods.Reset()
	for {
		if w.options.Synced() {
			w.look(ctx)
		}
		timer := w.options.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// look tells the pods that nobody serves, the oldest first, and counts them.
func (w *Watch) look(ctx context.Context) {
	pods, err := w.options.Pods.List(labels.Everything())
	if err != nil {
		w.options.Log.Error(err, "Cannot look for pods that nobody serves")
		return
	}
	served := w.options.Served()
	known := sets.New(append(slices.Clone(served), w.options.Others...)...)
	w.lookForGone(ctx, pods, known)
	alone := find(pods, known, w.options.Clock.Now())
	count(alone)
	waiting, events := sets.New[types.UID](), 0
	for _, pod := range alone {
		waiting.Insert(pod.UID)
		if w.told.Has(pod.UID) || events == eventsAtOnce {
			continue
		}
		events++
		w.told.Insert(pod.UID)
		w.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "NameNotServed", "Scheduling", "%s", w.note(pod.Spec.SchedulerName, served))
	}
	w.told = w.told.Intersection(waiting)
}

// lookForGone calls Gone for the profiles that do not exist and of which pods say that they
// are held: who was told so by an earlier process would not be counted, nor hear that the
// profile is gone.
func (w *Watch) lookForGone(ctx context.Context, pods []*v1.Pod, known sets.Set[string]) {
	names := sets.New[string]()
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !known.Has(pod.Spec.SchedulerName) && w.isHeld(pod) {
			names.Insert(pod.Spec.SchedulerName)
		}
	}
	w.gone = w.gone.Intersection(names)
	for _, name := range sets.List(names.Difference(w.gone)) {
		exists, err := w.options.Exists(ctx, name)
		if err != nil {
			w.options.Log.Error(err, "Cannot look whether a profile was deleted", "schedulingProfile", name)
			return
		}
		if !exists && !fault.EarlierHoldsForgotten {
			w.options.Gone(name)
			w.gone.Insert(name)
		}
	}
}

func (w *Watch) isHeld(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && slices.Contains(w.options.HeldFor, c.Reason)
	})
}

func (w *Watch) note(name string, served []string) string {
	note := fmt.Sprintf("no scheduler has looked at the pod for %v: no SchedulingProfile that runs is called %q", Patience, name)
	if nearest := w.options.Nearest(name, served); nearest != "" {
		note += fmt.Sprintf(", did you mean %q?", nearest)
	}
	return note + "; a name that another scheduler serves belongs in the manager's --other-schedulers"
}

// find returns the pods that wait since long enough for a name that is not
// known, and that no bound pod carries: who bound that one serves the name.
func find(pods []*v1.Pod, known sets.Set[string], now time.Time) []*v1.Pod {
	var alone []*v1.Pod
	served := sets.New[string]()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			served.Insert(pod.Spec.SchedulerName)
		}
	}
	for _, pod := range pods {
		name := pod.Spec.SchedulerName
		if IsAlone(pod, now) && !known.Has(name) && !served.Has(name) {
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
func IsAlone(pod *v1.Pod, now time.Time) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) >= Patience &&
		!slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
}

func count(alone []*v1.Pod) {
	names := map[string]int{}
	for _, pod := range alone {
		name := pod.Spec.SchedulerName
		if _, counted := names[name]; !counted && len(names) >= namesCounted {
			name = manyNames
		}
		names[name]++
	}
	unservedPods.Reset()
	for name, n := range names {
		unservedPods.WithLabelValues(name).Set(float64(n))
	}
}
