package binding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
)

// ErrGone says that the pod does not exist any more, is terminating, or is bound to
// another node. The pod must not be tried again.
var ErrGone = errors.New("the pod is gone, or bound to another node")

// errPodChanged says that the pod is not the one that was decided about any more.
var errPodChanged = errors.New("the pod changed in what scheduling reads while it was being bound")

// maxRebinds limits how often an unbound pod is bound again at once.
const maxRebinds = 5

const (
	// retryDelay is the wait between two tries of a failed read or write.
	retryDelay = time.Second
	// maxRetryDelay limits a wait that doubles with each try.
	maxRetryDelay = 30 * time.Second
)

// RequestTimeout is how long an API server may work on a request even when its client is
// gone: its default --request-timeout.
const RequestTimeout = time.Minute

// +kubebuilder:rbac:groups="",resources=pods/binding,verbs=create,roleName=binder-role

// bind sends the Binding. After an answer that does not say whether the API server
// stored it, the pod stays assumed until a quorum read says what happened. A pod
// that is unbound, and unchanged in what scheduling reads, is bound again at once.
func (b *Binding) bind(ctx context.Context, a *Assignment) error {
	pod := a.Info.GetPod()
	known := b.status.quiesce(pod)
	version := known.version
	// openVersion is the resource version of a Binding that may still arrive at
	// the API server; empty when there is none.
	openVersion := ""
	entry := b.newJournalEntry(pod.UID)
	defer entry.releaseIfKnown()
	if extender, err := a.Framework.BindWithExtender(ctx, a.assigned, a.Node); extender != "" {
		return b.verifyExtenderBind(ctx, a, extender, err)
	}
	for try := 0; ; try++ {
		if err := entry.commit(ctx, known); err != nil {
			return b.invalidateLostBinding(ctx, a, openVersion, err, entry)
		}
		framework.WriteBindingData(a.State, &framework.BindingData{Annotations: a.Annotations, ResourceVersion: version})
		status := b.runBindPlugins(ctx, a)
		if status.IsSuccess() {
			entry.outcomeUnknown = false
			return nil
		}
		if status.IsSkip() {
			return b.invalidateLostBinding(ctx, a, openVersion, errNoBinder, entry)
		}
		err := bindingError(status)
		if status.IsRejected() || !ambiguous(err) {
			return b.invalidateLostBinding(ctx, a, openVersion, err, entry)
		}
		live, readErr := b.getLivePod(ctx, pod)
		entry.outcomeUnknown = readErr != nil || live != nil && live.ResourceVersion == version
		switch {
		case readErr != nil:
			return fmt.Errorf("%w; reading the pod afterwards: %w", err, readErr)
		case live == nil:
			return ErrGone
		case live.Spec.NodeName == a.Node:
			return nil
		case live.Spec.NodeName != "" || live.DeletionTimestamp != nil:
			return ErrGone
		case live.ResourceVersion != version && !framework.SameForScheduling(pod, live):
			return errPodChanged // a Binding with the old version cannot take effect
		}
		openVersion = ""
		if live.ResourceVersion == version {
			openVersion = version
		}
		// As in kube-scheduler, an out-of-tree plugin is called once for an attempt.
		if try >= maxRebinds || errors.As(err, new(*framework.PanicError)) || !a.Framework.InTree(status.Plugin()) {
			return b.invalidateLostBinding(ctx, a, openVersion, err, entry)
		}
		rebindsTotal.Inc()
		klog.FromContext(ctx).V(2).Info("Binding again: the pod is unbound and unchanged", "pod", klog.KObj(pod), "node", a.Node, "answer", err.Error())
		known = podStatusOf(live)
		version = known.version
	}
}

// runBindPlugins runs the Bind plugins as soon as one of the slots is free. The pods of a backlog
// wait here, since each request that waits for a connection has some 20 KiB of stack and
// buffers. Out-of-tree plugins need no slot: one that hangs would keep it.
func (b *Binding) runBindPlugins(ctx context.Context, a *Assignment) *fwk.Status {
	if !a.Framework.HasOutOfTreePlugins() {
		if err := b.takeSlot(ctx); err != nil {
			return fwk.AsStatus(err)
		}
		defer func() { b.slots <- struct{}{} }()
	}
	return a.Framework.RunBindPlugins(ctx, a.State, a.assigned, a.Node)
}

// takeSlot waits for a slot, or until ctx ends.
func (b *Binding) takeSlot(ctx context.Context) error {
	select {
	case <-b.slots:
		return nil
	default:
		return b.options.Wait(ctx, b.slots)
	}
}

// invalidateLostBinding makes sure, before the pod may go to another node, that its
// Binding at openVersion cannot take effect any more: one can, after its connection
// broke and a quorum read found the pod unbound. It writes the pod's status, so that
// the Binding carries an old resource version. Where the API server refuses that write
// for good, it waits until no earlier request can take effect. It returns err, or what
// the API server says instead: nil when the pod is on its node after all. The entry stays
// in the journal until the outcome is known.
func (b *Binding) invalidateLostBinding(ctx context.Context, a *Assignment, openVersion string, err error, entry *journalEntry) error {
	if openVersion == "" {
		return err
	}
	entry.outcomeUnknown = true
	pod, answered := a.Info.GetPod(), b.options.Clock.Now()
	err = fmt.Errorf("%w; a Binding at resource version %s was given up", err, openVersion)
	for delay := retryDelay; ; delay = min(2*delay, maxRetryDelay) {
		patchErr := b.status.writeBindFailure(ctx, pod, openVersion, err.Error())
		if patchErr == nil {
			entry.outcomeUnknown = false
			return err
		}
		klog.FromContext(ctx).V(2).Info("Cannot invalidate a Binding that may still arrive", "pod", klog.KObj(pod), "answer", patchErr.Error())
		// The clock is read before the pod, which then shows any Binding that took effect.
		tooLate := refused(patchErr) && b.options.Clock.Since(answered) >= RequestTimeout
		live, readErr := b.getLivePod(ctx, pod)
		entry.outcomeUnknown = readErr != nil || live != nil && live.ResourceVersion == openVersion
		switch {
		case readErr != nil:
			return err
		case live == nil:
			return ErrGone
		case live.Spec.NodeName == a.Node:
			return nil
		case live.Spec.NodeName != "" || live.DeletionTimestamp != nil:
			return ErrGone
		case live.ResourceVersion != openVersion || tooLate || !b.pause(ctx, delay):
			return err
		}
	}
}

// pause waits for delay and reports false when ctx ends first.
func (b *Binding) pause(ctx context.Context, delay time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.options.Clock.After(delay):
		return true
	}
}

// refused reports whether the API server refuses a write for what it is. It takes others,
// and has not stored this one.
func refused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// ambiguous reports whether a failed write may have been stored, or may succeed
// when it is repeated. Errors with which the API server rejects a request, and
// requests that were never sent, are not ambiguous.
func ambiguous(err error) bool {
	if errors.Is(err, leadership.ErrNotLeading) {
		return false
	}
	return !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) &&
		!apierrors.IsUnauthorized(err) && !apierrors.IsMethodNotSupported(err)
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=get

// getLivePod reads the pod from the API server and repeats the read until it
// succeeds or ctx ends; the pod stays assumed as long. It returns nil for a pod that
// does not exist any more.
func (b *Binding) getLivePod(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	for {
		// Without a resource version it is a quorum read.
		live, err := b.options.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case err == nil && live.UID == pod.UID:
			return b.options.applyTransform(live), nil
		case err == nil, apierrors.IsNotFound(err):
			return nil, nil
		}
		klog.FromContext(ctx).Error(err, "Cannot find out whether the pod was bound; it stays assumed", "pod", klog.KObj(pod))
		if !b.pause(ctx, retryDelay) {
			return nil, context.Cause(ctx)
		}
	}
}

// newerVersion returns the newer of two resource versions, and b when they cannot be
// compared, because b was read later.
func newerVersion(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order > 0 {
		return a
	}
	return b
}

// verifyExtenderBind reads the pod after an extender was asked to bind it, because
// neither its success nor its failure can be trusted. An extender's Binding carries
// neither the decision nor a resource version, so that one that is still on its way
// cannot be invalidated: when it arrives later it takes effect, once, and the pod is
// where the API server says.
func (b *Binding) verifyExtenderBind(ctx context.Context, a *Assignment, extender string, bindErr error) error {
	pod := a.Info.GetPod()
	live, err := b.getLivePod(ctx, pod)
	switch {
	case err != nil && bindErr != nil:
		return fmt.Errorf("%w; reading the pod afterwards: %w", bindErr, err)
	case err != nil:
		return fmt.Errorf("%s reported that it bound the pod; reading it afterwards: %w", extender, err)
	case live == nil:
		return ErrGone
	case live.Spec.NodeName == a.Node:
		if bindErr != nil {
			klog.FromContext(ctx).Info("The extender failed, and has bound the pod", "pod", klog.KObj(pod), "extender", extender, "err", bindErr.Error())
		}
		return nil
	case live.Spec.NodeName != "" || live.DeletionTimestamp != nil:
		return ErrGone
	case bindErr != nil:
		return bindErr
	}
	return fmt.Errorf("%s reported that it bound the pod to its node, but the pod is not bound", extender)
}
