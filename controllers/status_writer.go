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
	"github.com/berthdev/berth/scheduler/profile"
)

// The field managers of this package. They are two, so that what the publisher applies
// never removes a condition, and vice versa.
const (
	conditionsFieldManager client.FieldOwner = "berth-controller"
	countersFieldManager   client.FieldOwner = "berth-scheduler"
)

const (
	// maxEventNote is the longest note that the events API accepts, in bytes.
	maxEventNote = 1024
	// maxFieldErrorEvents bounds the Events of one reconcile, as a condition's message is
	// bounded. maxFieldPath bounds the field path of an Event, in bytes.
	maxFieldErrorEvents = 20
	maxFieldPath        = 256
	// refusedFor separates, in a message, what runs from why the spec does not.
	refusedFor = " refused: "
	// maxWriteAttempts is how often one status is written after conflicts; then the
	// work queue of the reconciler retries.
	maxWriteAttempts = 4
)

var (
	errRecreated = errors.New("the object was deleted and created again")
	errOutdated  = errors.New("the status is of a newer generation than the one that was reconciled")
)

// statusWriter writes the conditions of both reconcilers by server-side apply, and
// makes an Event for each condition that changed. It is safe for concurrent use.
//
// It remembers the conditions that it wrote last, since the cache may not have them
// yet: a transition must not be reported twice, and its time must not change.
type statusWriter struct {
	client   client.StatusClient
	live     client.Reader // reads from the API server, not from the cache
	recorder events.EventRecorder
	clock    clock.PassiveClock

	mu      sync.Mutex
	written map[string]writtenConditions
}

// writtenConditions are the conditions that were written last under a key.
type writtenConditions struct {
	uid        types.UID
	conditions []metav1.Condition
}

// statusObject is an object whose status is written.
type statusObject struct {
	client.Object
	// key identifies the object in statusWriter.written: kind and name.
	key string
	// cachedConditions are the conditions in the cache.
	cachedConditions []metav1.Condition
	// withoutEvents is a condition that makes no Events, since it changes with every
	// edit.
	withoutEvents v1alpha1.ConditionType
}

// statusBuilder returns the status to apply. It must put resourceVersion into the
// metadata.
type statusBuilder func(resourceVersion string, conditions []*metav1ac.ConditionApplyConfiguration) runtime.ApplyConfiguration

// write applies a status with the conditions, and reports those that changed.
func (w *statusWriter) write(ctx context.Context, s statusObject, updates []conditionUpdate, status statusBuilder) error {
	before := w.previousConditions(s)
	after := withTransitionTimes(updates, s.GetGeneration(), before, w.clock.Now())
	applied := conditionsToApply(after)
	err := w.apply(ctx, s, func(resourceVersion string) runtime.ApplyConfiguration {
		return status(resourceVersion, applied)
	})
	if apierrors.IsNotFound(err) || errors.Is(err, errRecreated) {
		return nil // a deleted object needs no status
	}
	if errors.Is(err, errOutdated) {
		return nil // the newer generation will be reconciled when the cache has it
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
	w.reportTransitions(s, updates, before, after)
	return nil
}

// apply writes to the very object that was reconciled, which the resourceVersion
// ensures: an object of the same name that was created after a deletion starts at
// generation 1 again, and would seem to have the conditions of the deleted one. A UID
// in the patch would not do, since the API server ignores it on the status subresource.
// After a conflict with another writer, apply goes on with the new resourceVersion.
// When the object has another UID by now, the error is errRecreated. When its status is of
// a newer generation, which an earlier leader wrote before this process learned of it, the
// error is errOutdated: what is reported never goes back.
func (w *statusWriter) apply(ctx context.Context, s statusObject, status func(resourceVersion string) runtime.ApplyConfiguration) error {
	resourceVersion := s.GetResourceVersion()
	for attempt := 1; ; attempt++ {
		err := request(ctx, func(ctx context.Context) error {
			return w.client.Status().Apply(ctx, status(resourceVersion), conditionsFieldManager, client.ForceOwnership)
		})
		if !apierrors.IsConflict(err) || attempt == maxWriteAttempts {
			return err
		}
		now := s.DeepCopyObject().(client.Object)
		if err := request(ctx, func(ctx context.Context) error { return w.live.Get(ctx, client.ObjectKeyFromObject(s), now) }); err != nil {
			return err
		}
		if now.GetUID() != s.GetUID() {
			return errRecreated
		}
		if observedGeneration(now) > s.GetGeneration() {
			return errOutdated
		}
		resourceVersion = now.GetResourceVersion()
	}
}

// observedGeneration returns status.observedGeneration.
func observedGeneration(object client.Object) int64 {
	switch o := object.(type) {
	case *v1alpha1.SchedulingProfile:
		return o.Status.ObservedGeneration
	case *v1alpha1.PluginConfig:
		return o.Status.ObservedGeneration
	}
	return 0
}

// previousConditions returns the conditions that were written last: by this process,
// else by an earlier one as the cache has them.
func (w *statusWriter) previousConditions(s statusObject) []metav1.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.written[s.key]; ok && last.uid == s.GetUID() {
		return last.conditions
	}
	return s.cachedConditions
}

// forget drops what is remembered of a deleted object.
func (w *statusWriter) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.written, key)
}

// reportTransitions makes an Event for each condition that changed, for each new
// degradation, and for each new
// error of the spec. A derived condition is not reported. The Event's action is the
// condition, which keeps Events of one reason about several conditions apart.
func (w *statusWriter) reportTransitions(s statusObject, updates []conditionUpdate, before, after []metav1.Condition) {
	for i, c := range after {
		old := meta.FindStatusCondition(before, c.Type)
		same := old != nil && old.Status == c.Status && old.Reason == c.Reason
		switch u := updates[i]; {
		case c.Type == string(s.withoutEvents), u.derived:
		case len(u.fieldErrors) > 0:
			w.reportFieldErrors(s, c, u.fieldErrors, old)
		case len(u.degradations) > 0:
			w.reportDegradations(s, c, u.degradations, old)
		case !same:
			note := truncate(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message), maxEventNote)
			w.recorder.Eventf(s.Object, nil, eventType(c), c.Reason, c.Type, "%s", note)
		}
	}
	// Other conditions that are gone are Stalled, which is derived, and those of other controllers.
	for _, optional := range []v1alpha1.ConditionType{v1alpha1.ConditionExported, v1alpha1.ConditionDegraded} {
		if old := meta.FindStatusCondition(before, string(optional)); old != nil && meta.FindStatusCondition(after, old.Type) == nil {
			w.recorder.Eventf(s.Object, nil, corev1.EventTypeNormal, old.Reason, old.Type, "%s is over", old.Type)
		}
	}
}

// reportFieldErrors makes one Event for each field with errors that the old condition did
// not report, among the errors in the new condition's message. The Event refers to the
// field: Events that differ in their notes alone would become one series.
func (w *statusWriter) reportFieldErrors(s statusObject, c metav1.Condition, fieldErrors []compile.FieldError, old *metav1.Condition) {
	for i, f := range fieldErrors[:min(len(fieldErrors), maxFieldErrorEvents)] {
		if slices.ContainsFunc(fieldErrors[:i], func(earlier compile.FieldError) bool { return earlier.Path == f.Path }) {
			continue
		}
		message := (&compile.Rejection{Errors: slices.DeleteFunc(slices.Clone(fieldErrors), func(other compile.FieldError) bool { return other.Path != f.Path })}).Message()
		if old != nil && strings.Contains(old.Message, message) {
			continue
		}
		prefix, _, _ := strings.Cut(c.Message, refusedFor)
		note := truncate(prefix+refusedFor+message, maxEventNote)
		w.recorder.Eventf(fieldReference(s.Object, f.Path), nil, eventType(c), f.Reason, c.Type, "%s", note)
	}
}

// reportDegradations makes one Event for each reason with degradations that the old
// condition did not report. A degradation that differs in numbers alone is not new.
func (w *statusWriter) reportDegradations(s statusObject, c metav1.Condition, degradations profile.Degradations, old *metav1.Condition) {
	var reasons []profile.DegradationReason
	added := map[profile.DegradationReason][]string{}
	for _, d := range degradations {
		if old != nil && strings.Contains(withoutDigits(old.Message), withoutDigits(d.Message)) {
			continue
		}
		if added[d.Reason] == nil {
			reasons = append(reasons, d.Reason)
		}
		added[d.Reason] = append(added[d.Reason], d.Message)
	}
	for _, reason := range reasons {
		note := fmt.Sprintf("%s is %s: %s", c.Type, c.Status, strings.Join(added[reason], "; "))
		w.recorder.Eventf(s.Object, nil, eventType(c), string(reason), c.Type, "%s", truncate(note, maxEventNote))
	}
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// fieldReference returns a reference to a field of an object.
func fieldReference(object client.Object, path string) *corev1.ObjectReference {
	kind := "SchedulingProfile"
	if _, ok := object.(*v1alpha1.PluginConfig); ok {
		kind = "PluginConfig"
	}
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), FieldPath: truncate(path, maxFieldPath),
	}
}
