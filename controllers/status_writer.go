package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
)

// The field managers of this room. Two, so that what the publisher applies
// never takes a condition away, nor the other way round.
const (
	conditionsFieldManager client.FieldOwner = "berth-controller"
	countersFieldManager   client.FieldOwner = "berth-scheduler"
)

const (
	// maxNote is the longest note, in bytes, that the events API takes.
	maxEventNote = 1024
	// maxFaultEvents bounds the Events of one verdict, as a condition's message
	// is bounded; maxFieldPath bounds the field that one is about, in bytes.
	maxFaultEvents = 20
	maxFieldPath   = 256
	// refusedFor stands between what runs and why the spec does not.
	refusedFor = " refused: "
	// writeTries is how often one verdict is written anew after others wrote
	// to the same object; then the reconciler's queue tries again.
	maxWriteAttempts = 4
)

var errRecreated = errors.New("the object was deleted and made anew")

// statusWriter writes the verdicts of both reconcilers: by server-side apply,
// at once, with an Event for each condition that changed.
//
// It remembers the conditions it wrote last, since the cache may not have
// seen them yet: a transition must be neither reported twice nor re-dated.
type statusWriter struct {
	client   client.StatusClient
	live     client.Reader // past the cache
	recorder events.EventRecorder
	clock    clock.PassiveClock

	mu      sync.Mutex
	written map[string]writtenConditions
}

// record is what was written last under a key.
type writtenConditions struct {
	uid        types.UID
	conditions []metav1.Condition
}

// subject is an object whose status is written.
type statusObject struct {
	client.Object
	// key is the object's in the writer's memory: kind and name.
	key string
	// stored are the conditions as the cache shows them.
	cachedConditions []metav1.Condition
	// unreported conditions make no Events: they change as a matter of course.
	withoutEvents v1alpha1.ConditionType
}

// draft makes the status to apply. resourceVersion must go into its metadata.
type statusBuilder func(resourceVersion string, conditions []*metav1ac.ConditionApplyConfiguration) runtime.ApplyConfiguration

// write applies a status that holds the rulings, and reports what changed.
func (w *statusWriter) write(ctx context.Context, s statusObject, rulings []conditionUpdate, status statusBuilder) error {
	before := w.previousConditions(s)
	after := withTransitionTimes(rulings, s.GetGeneration(), before, w.clock.Now())
	applied := conditionsToApply(after)
	err := w.apply(ctx, s, func(resourceVersion string) runtime.ApplyConfiguration {
		return status(resourceVersion, applied)
	})
	if apierrors.IsNotFound(err) || errors.Is(err, errRecreated) {
		return nil // an object that is gone needs no status
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	if w.written == nil {
		w.written = map[string]writtenConditions{}
	}
	w.written[s.key] = writtenConditions{uid: s.GetUID(), conditions: after}
	w.mu.Unlock()
	w.reportTransitions(s, rulings, before, after)
	return nil
}

// apply writes to the very object that was judged, which the resource version
// ensures: an object of the same name made after a deletion starts again at
// generation 1, and would take an old verdict for its own. (A UID in the patch
// would not do: the API server ignores it on the status subresource.) When
// only somebody else's write came between, apply goes on from there; when the
// object is another one by now, the error is errReplaced.
func (w *statusWriter) apply(ctx context.Context, s statusObject, status func(resourceVersion string) runtime.ApplyConfiguration) error {
	resourceVersion := s.GetResourceVersion()
	for try := 1; ; try++ {
		err := w.client.Status().Apply(ctx, status(resourceVersion), conditionsFieldManager, client.ForceOwnership)
		if !apierrors.IsConflict(err) || try == maxWriteAttempts {
			return err
		}
		now := s.DeepCopyObject().(client.Object)
		if err := w.live.Get(ctx, client.ObjectKeyFromObject(s), now); err != nil {
			return err
		}
		if now.GetUID() != s.GetUID() {
			return errRecreated
		}
		resourceVersion = now.GetResourceVersion()
	}
}

// before returns the conditions as they were last written to the object: by
// this process, else by one before it, as the object tells.
func (w *statusWriter) previousConditions(s statusObject) []metav1.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.written[s.key]; ok && last.uid == s.GetUID() {
		return last.conditions
	}
	return s.cachedConditions
}

// forget drops what is remembered of an object that is gone.
func (w *statusWriter) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.written, key)
}

// report makes an Event of each condition that changed, and of each fault that
// is new. What a condition only repeats is not reported again. The condition is
// the Event's action, which keeps apart what the same reason did to several.
func (w *statusWriter) reportTransitions(s statusObject, rulings []conditionUpdate, before, after []metav1.Condition) {
	for i, c := range after {
		old := meta.FindStatusCondition(before, c.Type)
		same := old != nil && old.Status == c.Status && old.Reason == c.Reason
		switch r := rulings[i]; {
		case c.Type == string(s.withoutEvents), r.derived && !fault.ErrorByEveryCondition:
		case len(r.faults) > 0 && !fault.ErrorByEveryCondition:
			w.reportFaults(s, c, r.faults, old)
		case !same:
			note := truncate(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message), maxEventNote)
			w.recorder.Eventf(s.Object, nil, eventType(c), c.Reason, c.Type, "%s", note)
		}
	}
	for _, old := range before {
		if meta.FindStatusCondition(after, old.Type) == nil && old.Type != string(v1alpha1.ConditionStalled) {
			w.recorder.Eventf(s.Object, nil, corev1.EventTypeNormal, old.Reason, old.Type, "%s is over", old.Type)
		}
	}
}

// reportFaults makes one Event of each faulty field that the condition did not
// name before, among the faults that its message names. The Event is about the
// field: Events that differ in their notes alone would become one series.
func (w *statusWriter) reportFaults(s statusObject, c metav1.Condition, faults []compile.FieldError, old *metav1.Condition) {
	for i, f := range faults[:min(len(faults), maxFaultEvents)] {
		if slices.ContainsFunc(faults[:i], func(earlier compile.FieldError) bool { return earlier.Path == f.Path }) {
			continue
		}
		said := (&compile.Rejection{Errors: slices.DeleteFunc(slices.Clone(faults), func(other compile.FieldError) bool { return other.Path != f.Path })}).Message()
		if old != nil && strings.Contains(old.Message, said) {
			continue
		}
		runs, _, _ := strings.Cut(c.Message, refusedFor) // what runs, and what does not
		note := truncate(runs+refusedFor+said, maxEventNote)
		w.recorder.Eventf(fieldReference(s.Object, f.Path), nil, eventType(c), f.Reason, c.Type, "%s", note)
	}
}

// fieldOf refers to a field of an object.
func fieldReference(object client.Object, path string) *corev1.ObjectReference {
	kind := "SchedulingProfile"
	if _, is := object.(*v1alpha1.PluginConfig); is {
		kind = "PluginConfig"
	}
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), FieldPath: truncate(path, maxFieldPath),
	}
}
