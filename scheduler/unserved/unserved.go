// Package unserved reports pods whose spec.schedulerName no scheduler serves. No scheduler
// looks at pods with the name of another one, so that nothing else reports them.
package unserved

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

const (
	// ReportAfter is how old a pod without a PodScheduled condition must be to count as
	// unserved.
	ReportAfter = 60 * time.Second
	// checkInterval is the time between two checks.
	checkInterval = 10 * time.Second
	// maxEventsPerCheck bounds the Events of one check; other pods follow in later checks.
	maxEventsPerCheck = 20
	// maxNames bounds the values of the gauge's label.
	maxNames = 20
	// maxNameLength bounds a value of the gauge's label and a name in an Event's note, in bytes.
	// The API server neither bounds nor checks spec.schedulerName.
	maxNameLength = 128
)

// otherNames is the label value for the names beyond maxNames.
const otherNames = "(others)"

var unservedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "berth_unserved_pods",
	Help: "[ALPHA] Pods whose spec.schedulerName no scheduler seems to serve, by schedulerName: 20 names, and (others) for the rest.",
}, []string{"scheduler_name"})

// Metrics returns the package's collectors.
func Metrics() []prometheus.Collector { return []prometheus.Collector{unservedPods} }

// Profiles are the running profiles.
type Profiles interface {
	Names() []string
	// HoldDeleted holds the pods of a profile that was deleted while no process of Berth ran,
	// or before this one started.
	HoldDeleted(name string)
}

// Options configure a Reporter. All fields are required.
type Options struct {
	// Pods lists every pod that has not terminated.
	Pods corelisters.PodLister
	// Synced reports whether Pods is complete.
	Synced   func() bool
	Profiles Profiles
	// OtherSchedulers are the names that other schedulers are known to serve.
	OtherSchedulers []string
	// HoldReasons are the reasons of PodScheduled with which Berth holds pods of a profile.
	HoldReasons []string
	// ProfileExists reports whether there is a profile of that name. It returns an error when
	// that is unknown now.
	ProfileExists func(ctx context.Context, name string) (bool, error)
	// NamesOfProfiles returns the names of the profiles that exist, and of those that were
	// deleted and are remembered still. It is called once, if there may be pods of the latter.
	NamesOfProfiles func(ctx context.Context) ([]string, error)
	// ClosestName returns the one of the names that was most likely meant; empty for none.
	ClosestName func(name string, among []string) string
	Recorder    events.EventRecorder
	Clock       clock.Clock
	Log         logr.Logger
}

// Reporter looks for unserved pods in the leader, writes an Event for each, and counts them.
type Reporter struct {
	options Options
	// reported are the pods that have an Event and are still unserved.
	reported sets.Set[types.UID]
	// deletedProfiles are the names for which HoldDeleted was called, while pods of them are
	// held.
	deletedProfiles sets.Set[string]
	// ran are the names of profiles that ran since this process leads, while pods name them.
	ran sets.Set[string]
	// started says that the pods were held whose profile was deleted before this process led,
	// though no status says that they are held.
	started bool
}

// New returns a Reporter that has checked nothing yet.
func New(o Options) *Reporter {
	return &Reporter{options: o, reported: sets.New[types.UID](), deletedProfiles: sets.New[string](), ran: sets.New[string]()}
}

// NeedLeaderElection reports that only the leader writes the Events.
func (r *Reporter) NeedLeaderElection() bool { return true }

// Start checks all pods every checkInterval until ctx ends.
func (r *Reporter) Start(ctx context.Context) error {
	defer unservedPods.Reset()
	for {
		if r.options.Synced() {
			r.check(ctx)
		}
		timer := r.options.Clock.NewTimer(checkInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// check writes an Event for each new unserved pod, oldest first, and sets the gauge.
func (r *Reporter) check(ctx context.Context) {
	pods, err := r.options.Pods.List(labels.Everything())
	if err != nil {
		r.options.Log.Error(err, "Cannot list pods to find unserved ones")
		return
	}
	served := r.options.Profiles.Names()
	known := sets.New(append(slices.Clone(served), r.options.OtherSchedulers...)...)
	r.holdDeletedProfiles(ctx, pods, known)
	r.rememberProfiles(pods, served)
	unserved := findUnserved(pods, known, r.ran, r.options.Clock.Now())
	setGauge(unserved)
	pending, written := sets.New[types.UID](), 0
	for _, pod := range unserved {
		pending.Insert(pod.UID)
		if r.reported.Has(pod.UID) || written == maxEventsPerCheck {
			continue
		}
		written++
		r.reported.Insert(pod.UID)
		r.options.Recorder.Eventf(pod, nil, v1.EventTypeWarning, "NameNotServed", "Scheduling", "%s", r.note(pod.Spec.SchedulerName, served))
	}
	r.reported = r.reported.Intersection(pending)
}

// holdDeletedProfiles calls HoldDeleted for the profiles that do not exist though the status
// of pods says that Berth holds them. Otherwise a pod that an earlier process held would not
// be counted, and its status would not say that the profile was deleted. At first it also
// does so for pods that an earlier process tried: it may have ended after the deletion, and
// before it wrote their status. An Unschedulable one would make an autoscaler add nodes.
func (r *Reporter) holdDeletedProfiles(ctx context.Context, pods []*v1.Pod, known sets.Set[string]) {
	names, tried := sets.New[string](), sets.New[string]()
	for _, pod := range pods {
		switch name := pod.Spec.SchedulerName; {
		case pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || known.Has(name):
		case len(validation.IsDNS1123Subdomain(name)) > 0: // no profile can have the name
		case r.isHeld(pod):
			names.Insert(name)
		case hasPodScheduled(pod):
			tried.Insert(name)
		}
	}
	if !r.started && tried.Len() > 0 {
		profiles, err := r.options.NamesOfProfiles(ctx)
		if err != nil {
			r.options.Log.Error(err, "Cannot list profiles to find those that were deleted")
			return
		}
		names = names.Union(tried.Intersection(sets.New(profiles...)))
	}
	r.deletedProfiles = r.deletedProfiles.Intersection(names)
	for _, name := range sets.List(names.Difference(r.deletedProfiles)) {
		exists, err := r.options.ProfileExists(ctx, name)
		if err != nil {
			r.options.Log.Error(err, "Cannot get a profile to find out whether it was deleted", "schedulingProfile", name)
			return
		}
		if !exists {
			r.options.Profiles.HoldDeleted(name)
			r.deletedProfiles.Insert(name)
		}
	}
	r.started = true
}

func (r *Reporter) isHeld(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && slices.Contains(r.options.HoldReasons, c.Reason)
	})
}

func (r *Reporter) note(name string, served []string) string {
	name = printable(name)
	note := fmt.Sprintf("no scheduler has looked at the pod for %v: no SchedulingProfile that runs is called %q", ReportAfter, name)
	if closest := r.options.ClosestName(name, served); closest != "" {
		note += fmt.Sprintf(", did you mean %q?", closest)
	}
	return note + "; a name that another scheduler serves belongs in the manager's --other-schedulers"
}

// printable returns a schedulerName as a metric's label and an Event can have it: valid UTF-8 of
// a bounded length.
func printable(name string) string {
	return decision.TruncateBytes(strings.ToValidUTF8(name, "\uFFFD"), maxNameLength, "…")
}

// rememberProfiles adds the names of profiles that run to those that ran, and removes those of
// no pod.
func (r *Reporter) rememberProfiles(pods []*v1.Pod, served []string) {
	r.ran.Insert(served...)
	named := sets.New[string]()
	for _, pod := range pods {
		named.Insert(pod.Spec.SchedulerName)
	}
	r.ran = r.ran.Intersection(named)
}

// findUnserved returns the pods older than ReportAfter whose schedulerName is neither known
// nor that of any pod that another scheduler bound, which serves the name then. Pods that Berth
// bound are those of a profile that was deleted: they have an annotation, or their profile, whose
// decisions.annotate is Disabled, is one of ran.
func findUnserved(pods []*v1.Pod, known, ran sets.Set[string], now time.Time) []*v1.Pod {
	var unserved []*v1.Pod
	served := sets.New[string]()
	for _, pod := range pods {
		_, annotated := pod.Annotations[v1alpha1.AnnotationDecision]
		if ours := annotated || ran.Has(pod.Spec.SchedulerName); pod.Spec.NodeName != "" && !ours {
			served.Insert(pod.Spec.SchedulerName)
		}
	}
	for _, pod := range pods {
		name := pod.Spec.SchedulerName
		if IsUnserved(pod, now) && !known.Has(name) && !served.Has(name) {
			unserved = append(unserved, pod)
		}
	}
	slices.SortFunc(unserved, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return unserved
}

// IsUnserved reports whether a pod is older than ReportAfter and has no PodScheduled
// condition: no scheduler tried it, and no scheduling gate holds it.
func IsUnserved(pod *v1.Pod, now time.Time) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) >= ReportAfter &&
		!hasPodScheduled(pod)
}

func hasPodScheduled(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
}

func setGauge(unserved []*v1.Pod) {
	names := map[string]int{}
	for _, pod := range unserved {
		name := printable(pod.Spec.SchedulerName)
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
