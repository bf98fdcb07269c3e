package binding

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
)

// ErrGone says that the pod is no more, or on another node: whatever became of
// it, it is not to be tried again.
var ErrGone = errors.New("the pod is gone, or bound to another node")

// errChanged says that the pod is not what was decided about any more.
var errPodChanged = errors.New("the pod changed in what scheduling reads while it was being bound")

// rebinds bounds how often an unbound pod is bound again at once.
const maxRebinds = 5

// settlePause is how long a quorum read that failed is waited for.
const retryDelay = time.Second

// +kubebuilder:rbac:groups="",resources=pods/binding,verbs=create,roleName=binder-role

// bind sends the Binding. An answer that does not say whether the API server
// committed it is ambiguous: the pod stays assumed until a quorum read says
// what happened. Still unbound and unchanged in what scheduling reads, it is
// bound again at once.
func (b *Binding) bind(ctx context.Context, f *Assignment) error {
	pod := f.Info.GetPod()
	known := b.status.quiesce(pod)
	version := known.version
	// open is the resource version that a Binding carries of which nobody knows
	// whether it is still on its way; empty when there is none.
	open := ""
	entry := b.newJournalEntry(pod.UID)
	defer entry.releaseIfKnown()
	if by, err := f.Framework.BindWithExtender(ctx, f.assigned, f.Node); by != "" {
		return b.verifyExtenderBind(ctx, f, by, err)
	}
	for try := 0; ; try++ {
		if fault.BindWithoutVersion {
			version = ""
		}
		if err := entry.commit(ctx, known); err != nil {
			return b.invalidateLostBinding(ctx, f, open, err, entry)
		}
		framework.WriteBindingData(f.State, &framework.BindingData{Annotations: f.Annotations, ResourceVersion: version})
		status := f.Framework.RunBindPlugins(ctx, f.State, f.assigned, f.Node)
		if status.IsSuccess() {
			entry.outcomeUnknown = false
			return nil
		}
		if status.IsSkip() {
			return b.invalidateLostBinding(ctx, f, open, errNoBinder, entry)
		}
		err := bindingError(status)
		if status.IsRejected() || !ambiguous(err) {
			return b.invalidateLostBinding(ctx, f, open, err, entry)
		}
		live, readErr := b.getLivePod(ctx, pod)
		entry.outcomeUnknown = readErr != nil || live != nil && live.ResourceVersion == version
		switch {
		case readErr != nil:
			return fmt.Errorf("%w; reading the pod afterwards: %w", err, readErr)
		case live == nil:
			return ErrGone
		case live.Spec.NodeName == f.Node:
			return nil
		case live.Spec.NodeName != "" || live.DeletionTimestamp != nil:
			return ErrGone
		case (live.ResourceVersion != version || fault.FormsCompared) && !sameForScheduling(pod, live) && !fault.ChangedPodBound:
			return errPodChanged // no Binding is open: the pod has another version
		}
		open = ""
		if live.ResourceVersion == version {
			open = version
		}
		if try >= maxRebinds || errors.As(err, new(*framework.PanicError)) {
			return b.invalidateLostBinding(ctx, f, open, err, entry)
		}
		rebindsTotal.Inc()
		klog.FromContext(ctx).V(2).Info("Binding again: the pod is unbound and unchanged", "pod", klog.KObj(pod), "node", f.Node, "answer", err.Error())
		known = podStatusOf(live)
		version = known.version
	}
}

// close makes sure, before the pod may go elsewhere, that no Binding of it is
// still on its way: one may land after its connection broke and a quorum read
// saw the pod without it. A write that moves the resource version which the
// Binding carries makes it fail. close returns err, or what it found out: nil
// when the pod is on its node after all. Until that is certain the entry stays in
// the journal.
func (b *Binding) invalidateLostBinding(ctx context.Context, f *Assignment, open string, err error, entry *journalEntry) error {
	if open == "" || fault.LateBindingLeftOpen {
		return err
	}
	entry.outcomeUnknown = true
	pod := f.Info.GetPod()
	err = fmt.Errorf("%w; a Binding at resource version %s was given up", err, open)
	for {
		markErr := b.status.writeBindFailure(ctx, pod, open, err.Error())
		if markErr == nil || fault.ClosingBelieved {
			entry.outcomeUnknown = false
			return err
		}
		klog.FromContext(ctx).V(2).Info("The mark that no late Binding passes was refused", "pod", klog.KObj(pod), "answer", markErr.Error())
		live, readErr := b.getLivePod(ctx, pod)
		entry.outcomeUnknown = readErr != nil || live != nil && live.ResourceVersion == open
		switch {
		case readErr != nil:
			return err
		case live == nil:
			return ErrGone
		case live.Spec.NodeName == f.Node:
			return nil
		case live.Spec.NodeName != "" || live.DeletionTimestamp != nil:
			return ErrGone
		case live.ResourceVersion != open || !b.pause(ctx):
			return err
		}
	}
}

// pause waits a little; it reports false when ctx ends.
func (b *Binding) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.options.Clock.After(retryDelay):
		return true
	}
}

// ambiguous says whether a failed write may have been committed all the same,
// or may succeed when it is made again. Only answers with which the API server
// refuses for good are not, and what was never sent.
func ambiguous(err error) bool {
	if errors.Is(err, leadership.ErrNotLeading) {
		return false
	}
	if fault.UnknownIsFailure || fault.ConflictIsFailure && apierrors.IsConflict(err) {
		return false
	}
	return !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) &&
		!apierrors.IsUnauthorized(err) && !apierrors.IsMethodNotSupported(err)
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=get

// read asks the API server for the newest version of the pod, for as long as
// it takes: until it is known what happened, the pod counts on its node. It
// returns nil for a pod that is gone.
func (b *Binding) getLivePod(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	for {
		// No resource version: a quorum read.
		live, err := b.options.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case err == nil && live.UID == pod.UID:
			return b.options.applyTransform(live), nil
		case err == nil, apierrors.IsNotFound(err):
			return nil, nil
		}
		klog.FromContext(ctx).Error(err, "Cannot find out whether the pod was bound; it stays assumed", "pod", klog.KObj(pod))
		if !b.pause(ctx) {
			return nil, context.Cause(ctx)
		}
	}
}

// sameForScheduling says whether two versions of a pod read the same: status and
// bookkeeping aside, nothing differs. Both must have the form that the informer
// delivers: see Options.transformed. Annotations do not count: a plugin that writes
// some at PreBind, as many do, must not lose the attempt by that when the informer
// lags, and kube-scheduler binds such a pod as well.
func sameForScheduling(a, b *v1.Pod) bool {
	return a == b || a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		(!fault.AnnotationEndsBinding || equality.Semantic.DeepEqual(a.Annotations, b.Annotations)) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// newer returns the newer of two resource versions. Where they cannot be
// compared, the second counts: it was learned later.
func newerVersion(a, b string) string {
	if order, err := resourceversion.CompareResourceVersion(a, b); err == nil && order > 0 {
		return a
	}
	return b
}
