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

// carryOut ends an errand one way or another, and returns how long the API
// server shall be left alone.
func (x *explainer) process(ctx context.Context, logger logr.Logger, e explain.Task) time.Duration {
	if moot, bound := x.obsolete(e); moot {
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

// moot says whether nobody needs to know any more why a pod waits: it is bound,
// or else gone.
func (x *explainer) obsolete(e explain.Task) (moot, bound bool) {
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

// delete deletes the object of an errand, where it is still about that pod.
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
	there, err := x.decisions.get(ctx, name)
	if isGone(err) || err == nil && e.UID != "" && ownerOf(&there) != e.UID {
		return nil
	}
	if err == nil {
		err = x.decisions.delete(ctx, name, there.UID)
	}
	if isGone(err) {
		return nil
	}
	return err
}

// write writes what an errand has to say, and returns the object's UID.
func (x *explainer) writeObject(ctx context.Context, e explain.Task) (types.UID, error) {
	object := newDecision(e, x.clock.Now())
	switch e.Verb {
	case explain.Update:
		uid, err := x.decisions.update(ctx, object)
		switch {
		case isGone(err): // somebody deleted it
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

// settle writes object where there is one of that name: about the same pod, then
// its status is replaced; or about another, then it goes. refusal is what the API
// server said to the former, if it was asked already.
func (x *explainer) writeOverExisting(ctx context.Context, object *v1alpha1.SchedulingDecision, refusal error) (types.UID, error) {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	there, err := x.decisions.get(ctx, name)
	switch {
	case err != nil && !isGone(err):
		return "", err
	case err == nil && ownerOf(&there) == ownerOf(object):
		if refusal != nil {
			return "", refusal
		}
		return x.decisions.update(ctx, object)
	case err == nil:
		if err := x.decisions.delete(ctx, name, there.UID); err != nil && !isGone(err) {
			return "", err
		}
	}
	return x.decisions.create(ctx, object)
}

// setback notes that an errand failed. It is done again, unless it never can be.
func (x *explainer) handleFailure(ctx context.Context, logger logr.Logger, e explain.Task, err error) time.Duration {
	now := x.clock.Now()
	if ctx.Err() != nil {
		x.queue.Retry(e, now, true)
		return 0
	}
	x.logError(logger.WithValues("verb", e.Verb, "pod", e.Namespace+"/"+e.Pod), err, "A pod could not be explained")
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

// pause is how long the API server shall be left alone after err.
func (x *explainer) backoff(err error) time.Duration {
	if isUnserved(err) {
		return unservedRetryInterval
	}
	pause := min(time.Second<<min(max(x.failures-1, 0), 10), maxBackoff)
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		return max(pause, time.Duration(seconds)*time.Second)
	}
	return pause
}

// gone says that there is no such object, where there could be.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !isUnserved(err) && !isNamespaceGone(err)
}

// unserved says that the API server knows no SchedulingDecisions.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// noNamespace says that the namespace is gone or about to be, and all its pods
// with it.
func isNamespaceGone(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// final says that the API server will never have it.
func isFinal(err error) bool {
	return isNamespaceGone(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// itsOwn says that err speaks of one object: a quota, somebody else's hook, a
// finalizer, another writer.
func isObjectError(err error) bool {
	return !isUnserved(err) && (apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err))
}

// refused says that what was asked for was surely not done.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	code := int32(0)
	if errors.As(err, &status) {
		code = status.Status().Code
	}
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
