package explainer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/explain"
)

// process does one task of the queue, reports the result to the queue, and returns for
// how long to send nothing to the API server.
func (x *explainer) process(ctx context.Context, logger logr.Logger, e explain.Task) time.Duration {
	if obsolete, bound := x.obsolete(e); obsolete {
		x.queue.Obsolete(e, bound)
		return 0
	}
	var object types.UID
	var err error
	if e.Verb == explain.Delete {
		err = x.deleteObject(ctx, e)
	} else {
		object, err = x.writeObject(ctx, e)
	}
	switch {
	case err == nil && e.Verb == explain.Delete:
		x.queue.Deleted(e)
	case err == nil:
		x.queue.Written(e, object)
	default:
		return x.handleFailure(ctx, logger, e, err)
	}
	x.failures = 0
	return 0
}

// obsolete reports whether an explanation is of no use any more, since its pod is bound
// or deleted, and whether it is bound.
func (x *explainer) obsolete(e explain.Task) (obsolete, bound bool) {
	if e.Explanation == nil {
		return false, false
	}
	pod, err := x.pods.Pods(e.Namespace).Get(e.Pod)
	if err != nil || pod.UID != e.UID {
		return true, false
	}
	bound = pod.Spec.NodeName != "" && e.Explanation.Status.Result != v1alpha1.ResultBound
	return bound, bound
}

// deleteObject deletes the object of a task if it still belongs to the task's pod.
func (x *explainer) deleteObject(ctx context.Context, e explain.Task) error {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}
	if e.Object != "" {
		err := x.decisions.delete(ctx, name, e.Object)
		if err == nil || isGone(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	existing, err := x.decisions.get(ctx, name)
	if isGone(err) || err == nil && e.UID != "" && ownerOf(&existing) != e.UID {
		return nil
	}
	if err == nil {
		err = x.decisions.delete(ctx, name, existing.UID)
	}
	if isGone(err) {
		return nil
	}
	return err
}

// writeObject writes the explanation of a task, and returns the object's UID.
func (x *explainer) writeObject(ctx context.Context, e explain.Task) (types.UID, error) {
	object := newDecision(e, x.clock.Now())
	switch e.Verb {
	case explain.Update:
		uid, err := x.decisions.update(ctx, object, 0)
		switch {
		case isGone(err): // another client deleted it
			return x.decisions.create(ctx, object)
		case apierrors.IsInvalid(err):
			return x.writeOverExisting(ctx, object, err)
		}
		return uid, err
	case explain.Replace:
		return x.writeOverExisting(ctx, object, nil)
	}
	uid, err := x.decisions.create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return x.writeOverExisting(ctx, object, nil)
	}
	return uid, err
}

// writeOverExisting writes object where one of that name may exist: it updates the
// object if that belongs to the same pod, and replaces it if it belongs to another.
// updateErr is the API server's error for an update that was tried already, with the pod as the
// first owner; nil when none was.
func (x *explainer) writeOverExisting(ctx context.Context, object *v1alpha1.SchedulingDecision, updateErr error) (types.UID, error) {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	existing, err := x.decisions.get(ctx, name)
	switch {
	case err != nil && !isGone(err):
		return "", err
	case err == nil && ownerOf(&existing) == ownerOf(object):
		owner := ownerIndex(&existing)
		if updateErr != nil && owner == 0 {
			return "", updateErr
		}
		return x.decisions.update(ctx, object, owner)
	case err == nil:
		if err := x.decisions.delete(ctx, name, existing.UID); err != nil && !isGone(err) {
			return "", err
		}
	}
	return x.decisions.create(ctx, object)
}

// handleFailure logs the error of a task, and puts the task back into the queue unless
// it can never succeed. It returns for how long to send nothing to the API server.
func (x *explainer) handleFailure(ctx context.Context, logger logr.Logger, e explain.Task, err error) time.Duration {
	now := x.clock.Now()
	if ctx.Err() != nil {
		x.queue.Retry(e, now, true)
		return 0
	}
	x.logError(logger.WithValues("verb", e.Verb, "pod", e.Namespace+"/"+e.Pod), err, "The explanation of a pod could not be written")
	switch {
	case isFinal(err):
		x.queue.Rejected(e)
		return 0
	case isObjectError(err):
		x.queue.Retry(e, now.Add(objectRetryInterval), false)
		return 0
	}
	x.failures++
	x.queue.Retry(e, now, !isRefused(err))
	return x.backoff(err)
}

// backoff returns for how long to send nothing to the API server after err.
func (x *explainer) backoff(err error) time.Duration {
	if isUnserved(err) {
		return unservedRetryInterval
	}
	delay := min(time.Second<<min(max(x.failures-1, 0), 10), maxBackoff)
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		return max(delay, time.Duration(seconds)*time.Second)
	}
	return delay
}

// isGone reports whether the object does not exist, although its kind and namespace do.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !isUnserved(err) && !isNamespaceGone(err)
}

// isUnserved reports whether the API server does not serve SchedulingDecisions.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// isNamespaceGone reports whether the namespace does not exist or is terminating.
func isNamespaceGone(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// isFinal reports whether the API server will never accept the request.
func isFinal(err error) bool {
	return isNamespaceGone(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// isObjectError reports whether err is about this object only: a quota, an admission
// webhook, a finalizer, another writer.
func isObjectError(err error) bool {
	return !isUnserved(err) && (apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err))
}

// isRefused reports whether the API server certainly did not carry the request out.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	code := int32(0)
	if errors.As(err, &status) {
		code = status.Status().Code
	}
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
