// Package binding makes every write to a Pod, and undoes what a failed one
// leaves behind. It carries a Placement to the API server: assume, Reserve,
// Permit in the loop; then, beside it, wait, PreBind, Bind, PostBind.
package binding

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Binding is the one writer of Pods.
type Binding struct {
	options   Options
	status    *statusWriter
	evictions *evictions
}

// Options are what a Binding is built from.
type Options struct {
	Client clientset.Interface
	Cache  *cache.Cache
	Clock  clock.WithTicker
	Log    logr.Logger
	// Transform is the one that the pod informer applies, so that a pod that is read
	// from the API server and one that the informer delivered have the same form; nil:
	// the informer applies none.
	Transform toolscache.TransformFunc
	// Journal holds the pods that have a Binding under way although their status
	// says that they are not scheduled; nil: no leader comes after this one.
	Journal Journal
	// Go starts work beside the loop.
	Go func(func())
	// Wait waits for such work; nil means framework.Block.
	Wait framework.WaitFunc
}

// New returns a Binding that has written nothing.
func New(o Options) *Binding {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	return &Binding{options: o, status: newStatusWriter(o), evictions: newEvictions()}
}

// transformed returns a pod as the informer would deliver it. It may change the pod
// that it is given, which must be the caller's own.
func (o Options) applyTransform(pod *v1.Pod) *v1.Pod {
	if o.Transform == nil || fault.FormsCompared {
		return pod
	}
	object, err := o.Transform(pod)
	if err != nil {
		return pod // the informer would have delivered nothing: the pod counts as changed
	}
	return object.(*v1.Pod)
}

// Flight is one pod on its way to a node.
type Assignment struct {
	Framework *framework.Framework
	State     fwk.CycleState
	// Info is the pod as the cycle saw it; Node is where it goes.
	Info *framework.PodInfo
	Node string
	// Annotations go onto the Binding.
	Annotations map[string]string
	// Deaf is called once no refusal is possible any more: from there on only
	// an error can bring the pod back.
	StopRecordingEvents func()

	assigned *v1.Pod
	// end ends the context that plugins were given in Begin.
	cancel context.CancelFunc
}

// Begin assumes the pod on its node, reserves what it needs and asks whether
// it may go. On failure all of that is undone. The error is a
// *framework.FitError when a plugin refused the pod.
//
// The order is upstream's: what a Reserve plugin claims must be visible to
// nobody before the pod counts on the node. The context that plugins are given
// ends with the flight: whatever one of them began for the pod, such as to wait
// for others at Permit, has an end.
func (b *Binding) Begin(ctx context.Context, f *Assignment) error {
	if err := b.options.Cache.AssumePod(f.Info, f.Node); err != nil {
		return err
	}
	f.assigned = f.Info.WithNode(f.Node).GetPod()
	if !fault.NominationOutlivesAssume {
		b.options.Cache.DeleteNominatedPodIfExists(f.assigned)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	if s := f.Framework.RunReservePluginsReserve(ctx, f.State, f.assigned, f.Node); !s.IsSuccess() {
		b.undo(ctx, f)
		f.cancel()
		return rejectionError(f.Node, s)
	}
	waits, s := f.Framework.RunPermitPlugins(ctx, f.State, f.assigned, f.Node)
	if s.IsWait() {
		f.Framework.WaitingPods.Add(f.assigned, waits)
	} else if !s.IsSuccess() {
		b.undo(ctx, f)
		f.cancel()
		return rejectionError(f.Node, s)
	}
	return nil
}

// Finish waits for Permit, prepares and binds the pod, and returns nil when
// the pod is bound to its node, as far as can be known. On failure everything
// is undone, but for a pod that the API server holds as bound elsewhere or
// that is gone: ErrGone says so, and the pod must not be tried again.
func (b *Binding) Finish(ctx context.Context, f *Assignment) error {
	defer f.cancel()
	if err := b.prepare(ctx, f); err != nil {
		if fault.WaitingUnreserveForgotten && errors.As(err, new(*framework.FitError)) {
			b.options.Cache.ForgetPod(f.assigned.UID)
			return err
		}
		b.undo(ctx, f)
		return err
	}
	if err := b.bind(ctx, f); err != nil {
		b.undo(ctx, f)
		return err
	}
	f.Framework.RunPostBindPlugins(ctx, f.State, f.assigned, f.Node)
	return nil
}

// prepare does what has to be done before the Binding is sent.
func (b *Binding) prepare(ctx context.Context, f *Assignment) error {
	preflight := f.Framework.RunPreBindPreFlights(ctx, f.State, f.assigned, f.Node)
	if preflight.IsError() || preflight.IsRejected() {
		return preflight.AsError()
	}
	uid := f.assigned.UID
	if preflight.IsSuccess() || f.Framework.WaitingPods.Has(uid) {
		// Autoscalers are told where the pod is going, since it may take a
		// while. Failing to tell them is no reason not to go.
		b.status.nominate(f.Info.GetPod(), f.Node)
	}
	if fault.DeafAtPermit {
		f.StopRecordingEvents()
	}
	if s := f.Framework.WaitOnPermit(ctx, f.State, uid); !s.IsSuccess() {
		return rejectionError(f.Node, s)
	}
	f.StopRecordingEvents()
	if !preflight.IsSuccess() {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.Framework.AddPodInPreBind(uid, cancel)
	defer f.Framework.RemovePodInPreBind(uid)
	if s := f.Framework.RunPreBindPlugins(ctx, f.State, f.assigned, f.Node); !s.IsSuccess() {
		return bindingError(s)
	}
	// Plugins may take a pod out of the list, too.
	if p := f.Framework.GetPodInPreBind(uid); p != nil && !p.MarkPrebound() {
		return context.Cause(ctx)
	}
	return nil
}

// undo takes back what Begin did, last step first.
func (b *Binding) undo(ctx context.Context, f *Assignment) {
	if !fault.WaitsAfterUndo {
		f.Framework.WaitingPods.Remove(f.assigned.UID)
	}
	if fault.ForgottenFirst {
		b.options.Cache.ForgetPod(f.assigned.UID)
	}
	f.Framework.RunReservePluginsUnreserve(ctx, f.State, f.assigned, f.Node)
	if !fault.ForgetSkipped {
		b.options.Cache.ForgetPod(f.assigned.UID)
	}
}

// Assigned is the pod with its node, as plugins see it from Reserve on.
func (f *Assignment) AssignedPod() *v1.Pod { return f.assigned }

// refusal is the error of a plugin that said no to the node that was chosen.
func rejectionError(node string, s *fwk.Status) error {
	if !s.IsRejected() {
		return s.AsError()
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.NodeToStatus.Set(node, s)
	diagnosis.AddPluginStatus(s)
	return &framework.FitError{NumAllNodes: 1, Diagnosis: diagnosis}
}

// errNoBinder says that no Bind plugin took the pod.
var errNoBinder = fmt.Errorf("no Bind plugin took the pod")

// Declined says that a plugin refused the pod at PreBind or Bind. That is too
// late for a verdict: events are not kept for the pod any more, so that it
// must not wait for one. It is tried again as after an error, and still called
// unschedulable, as upstream does.
type BindRejectedError struct {
	Plugin string
	Err    error
}

func (d *BindRejectedError) Error() string { return d.Err.Error() }

// Unwrap returns what the plugin said.
func (d *BindRejectedError) Unwrap() error { return d.Err }

// late is the error of a plugin at PreBind or Bind.
func bindingError(s *fwk.Status) error {
	if s.IsRejected() {
		return &BindRejectedError{Plugin: s.Plugin(), Err: s.AsError()}
	}
	return s.AsError()
}
