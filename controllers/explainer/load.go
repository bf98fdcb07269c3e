package explainer

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/explain"
)

const (
	// syncPollInterval is how often it is checked whether the pod informer has synced.
	syncPollInterval = 100 * time.Millisecond
	// resyncInterval is the time between two lists of the existing objects, for each of the
	// pages that they fill.
	resyncInterval = 10 * time.Second
)

// loadExisting adds the existing SchedulingDecisions to the queue: those of an earlier
// leader, and those of this process before a restart. It returns false, and after what
// time to call it again, when that failed.
func (x *explainer) loadExisting(ctx context.Context, logger logr.Logger) (time.Duration, bool) {
	if !x.synced() {
		return syncPollInterval, false
	}
	if err := x.addExisting(ctx, acceptObjects); err != nil {
		x.failures++
		x.logError(logger, err, "SchedulingDecisions could not be listed; no pod is explained until they are")
		return x.backoff(err), false
	}
	x.failures = 0
	return 0, true
}

// resync adds the objects that were created by others since, once their time has come: an earlier
// leader sent them before it ended, and they arrived late. Nothing else would delete them
// before their pod is gone. It returns when it is due next, and false when it failed, and
// after what time to send the next request.
func (x *explainer) resync(ctx context.Context, logger logr.Logger) (time.Duration, bool) {
	if due := x.nextResync.Sub(x.clock.Now()); due > 0 {
		return due, true
	}
	err := x.addExisting(ctx, acceptMetadataList)
	if err == nil {
		return x.nextResync.Sub(x.clock.Now()), true
	}
	if ctx.Err() == nil {
		x.logError(logger, err, "SchedulingDecisions could not be listed; those that an earlier leader sent may stay until they are")
	}
	pause := x.backoff(err)
	x.nextResync = x.clock.Now().Add(pause + resyncInterval)
	return pause, false
}

// addExisting adds all existing objects to the queue, without those that are being deleted.
func (x *explainer) addExisting(ctx context.Context, accept string) error {
	token := ""
	for pages := time.Duration(1); ; pages++ {
		page, err := x.decisions.list(ctx, accept, token)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if object := &page.Items[i]; object.DeletionTimestamp == nil {
				x.queue.AddExisting(x.standingOf(object))
			}
		}
		if token = page.Continue; token == "" {
			x.nextResync = x.clock.Now().Add(pages * resyncInterval)
			return nil
		}
	}
}

// logError logs an error. Errors of one kind are logged once per errorLogInterval.
func (x *explainer) logError(logger logr.Logger, err error, message string) {
	kind := string(apierrors.ReasonForError(err))
	if isUnserved(err) {
		kind = "Unserved"
	}
	switch {
	case !x.errorLog.allow(kind):
	case isUnserved(err):
		logger.Info("SchedulingDecisions are not served: pods are scheduled but not explained; apply config/crd")
	default:
		logger.Error(err, message)
	}
}

// standingOf describes an existing object to the queue, and says when it is to be
// deleted.
func (x *explainer) standingOf(object *v1alpha1.SchedulingDecision) explain.ExistingObject {
	s := explain.ExistingObject{
		Namespace: object.Namespace, Pod: object.Name,
		Owner: ownerOf(object), Object: object.UID, WrittenAt: object.CreationTimestamp.Time,
		Status: object.Status,
	}
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && entry.Time.After(s.WrittenAt) {
			s.WrittenAt = entry.Time.Time
		}
	}
	pod, err := x.pods.Pods(object.Namespace).Get(object.Name)
	switch {
	case err != nil || pod.UID != s.Owner:
		s.PodDeleted = true
	case pod.Spec.NodeName != "":
		s.BoundAt = boundAt(pod, x.clock.Now())
	}
	return s
}

// boundAt returns when pod was bound; now when its condition does not say it.
func boundAt(pod *corev1.Pod, now time.Time) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return now
}
