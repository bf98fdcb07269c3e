// Package binding makes every write to a Pod and rolls back what a failed one has
// changed. It carries a Placement to the API server: assume, Reserve and Permit in
// the scheduling cycle; then, in the binding cycle, WaitOnPermit, PreBind, Bind and
// PostBind. It also writes pod conditions and evicts preemption victims.
package binding

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

// Binding is the only writer of Pods.
type Binding struct {
	options   Options
	status    *statusWriter
	evictions *evictions
	// slots has a value for each Binding that may be sent.
	slots chan struct{}
}

// Options are the dependencies of a Binding.
type Options struct {
	Client clientset.Interface
	Cache  *cache.Cache
	Clock  clock.WithTicker
	Log    logr.Logger
	// Transform is the transform function of the pod informer; nil for none. It
	// gives a pod that is read from the API server the form of one that the
	// informer delivered.
	Transform toolscache.TransformFunc
	// NominationFreed wakes the pods that may use the resources on node that were nominated to
	// pod; required for Evict.
	NominationFreed func(ctx context.Context, pod *v1.Pod, node string)
	// Journal holds the pods that are being bound although their status has
	// PodScheduled=False; nil when no other leader can follow this process.
	Journal Journal
	// Go starts work outside the scheduling loop.
	Go func(func())
	// Wait waits for such work; nil means framework.Block.
	Wait framework.WaitFunc
}

// New returns a Binding.
func New(o Options) *Binding {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	slots := make(chan struct{}, MaxInFlight)
	for range MaxInFlight {
		slots <- struct{}{}
	}
	return &Binding{options: o, status: newStatusWriter(o), evictions: newEvictions(), slots: slots}
}

// applyTransform returns a pod as the informer would deliver it. It may change pod,
// which the caller must own.
func (o Options) applyTransform(pod *v1.Pod) *v1.Pod {
	if o.Transform == nil {
		return pod
	}
	object, err := o.Transform(pod)
	if err != nil {
		return pod // the informer would deliver nothing: the pod counts as changed
	}
	return object.(*v1.Pod)
}

// Assignment is one pod that is being assigned to a node.
type Assignment struct {
	Framework *framework.Framework
	State     fwk.CycleState
	// Info is the pod as the scheduling cycle saw it; Node is the chosen node.
	Info *framework.PodInfo
	Node string
	// Annotations are set on the Binding.
	Annotations map[string]string
	// StopRecordingEvents is called once no plugin can reject the pod with a
	// verdict any more: from then on only an error returns the pod to the queue,
	// which needs no events for that. The caller may have stopped it before.
	StopRecordingEvents func()

	assigned *v1.Pod
	// cancel ends the context that plugins were given in Begin.
	cancel context.CancelFunc
}

// Begin assumes the pod on its node and runs the Reserve and Permit plugins. On an
// error it rolls all of that back. The error is a *framework.FitError when a plugin
// rejected the pod.
//
// As in kube-scheduler, the pod is assumed first: what a Reserve plugin claims must
// not be visible before the pod counts on the node. The context that plugins are
// given ends with the binding cycle, and with it what they began for the pod, such as
// a wait for other pods in Permit.
func (b *Binding) Begin(ctx context.Context, a *Assignment) error {
	if err := b.options.Cache.AssumePod(a.Info, a.Node); err != nil {
		return err
	}
	a.assigned = a.Info.WithNode(a.Node).GetPod()
	b.options.Cache.DeleteNominatedPodIfExists(a.assigned)
	ctx, a.cancel = context.WithCancel(ctx)
	begun := false
	// Deferred, for a plugin that ends its goroutine.
	defer func() {
		if !begun {
			b.undo(ctx, a)
			a.cancel()
		}
	}()
	if s := a.Framework.RunReservePluginsReserve(ctx, a.State, a.assigned, a.Node); !s.IsSuccess() {
		return rejectionError(a.Node, s)
	}
	waits, s := a.Framework.RunPermitPlugins(ctx, a.State, a.assigned, a.Node)
	if s.IsWait() {
		a.Framework.WaitingPods.Add(a.Framework, a.assigned, waits)
	} else if !s.IsSuccess() {
		return rejectionError(a.Node, s)
	}
	begun = true
	return nil
}

// Finish waits for Permit, runs PreBind and binds the pod. It returns nil when the
// pod is bound to its node, as far as can be known. On an error it rolls the
// assignment back; ErrGone says that the pod must not be tried again.
func (b *Binding) Finish(ctx context.Context, a *Assignment) error {
	defer a.cancel()
	if err := b.prepare(ctx, a); err != nil {
		b.undo(ctx, a)
		return err
	}
	if err := b.bind(ctx, a); err != nil {
		b.undo(ctx, a)
		return err
	}
	a.Framework.RunPostBindPlugins(ctx, a.State, a.assigned, a.Node)
	return nil
}

// prepare does all that comes before the Binding is sent.
func (b *Binding) prepare(ctx context.Context, a *Assignment) error {
	preflight := a.Framework.RunPreBindPreFlights(ctx, a.State, a.assigned, a.Node)
	if preflight.IsError() || preflight.IsRejected() {
		return preflight.AsError()
	}
	uid := a.assigned.UID
	if preflight.IsSuccess() || a.Framework.WaitingPods.Has(uid) {
		// Cluster autoscalers read the nominated node while the binding cycle takes
		// its time. A failure to write it does not stop the binding cycle.
		b.status.nominate(a.Info.GetPod(), a.Node)
	}
	if s := a.Framework.WaitOnPermit(ctx, a.State, uid); !s.IsSuccess() {
		return rejectionError(a.Node, s)
	}
	a.StopRecordingEvents()
	if !preflight.IsSuccess() {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.Framework.AddPodInPreBind(uid, cancel)
	defer a.Framework.RemovePodInPreBind(uid)
	if s := a.Framework.RunPreBindPlugins(ctx, a.State, a.assigned, a.Node); !s.IsSuccess() {
		return bindingError(s)
	}
	// Plugins may remove the pod from PreBind themselves.
	if p := a.Framework.GetPodInPreBind(uid); p != nil && !p.MarkPrebound() {
		return context.Cause(ctx)
	}
	return nil
}

// undo rolls back what Begin did. Until the cache has forgotten the pod, it is known to leave
// Permit: a gang must not count it.
func (b *Binding) undo(ctx context.Context, a *Assignment) {
	defer a.Framework.WaitingPods.Remove(a.assigned.UID)
	a.Framework.RunReservePluginsUnreserve(ctx, a.State, a.assigned, a.Node)
	b.options.Cache.ForgetPod(a.assigned.UID)
}

// AssignedPod returns the pod with its node, as plugins see it from Reserve on.
func (a *Assignment) AssignedPod() *v1.Pod { return a.assigned }

// rejectionError returns the error for a status other than success of a Reserve or
// Permit plugin: a *framework.FitError for a rejection of the node.
func rejectionError(node string, s *fwk.Status) error {
	if !s.IsRejected() {
		return s.AsError()
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.NodeToStatus.Set(node, s)
	diagnosis.AddPluginStatus(s)
	return &framework.FitError{NumAllNodes: 1, Diagnosis: diagnosis}
}

// errNoBinder says that every Bind plugin skipped the pod.
var errNoBinder = fmt.Errorf("no Bind plugin took the pod")

// BindRejectedError says that a plugin rejected the pod at PreBind or Bind. By then
// the queue has stopped recording events for the pod, so that the pod must not wait
// for one: it is tried again as after an error. As in kube-scheduler its condition
// says Unschedulable.
type BindRejectedError struct {
	Plugin string
	Err    error
}

func (d *BindRejectedError) Error() string { return d.Err.Error() }

// Unwrap returns the plugin's error.
func (d *BindRejectedError) Unwrap() error { return d.Err }

// bindingError returns the error for a status other than success of a PreBind or
// Bind plugin.
func bindingError(s *fwk.Status) error {
	if s.IsRejected() {
		return &BindRejectedError{Plugin: s.Plugin(), Err: s.AsError()}
	}
	return s.AsError()
}

// MaxInFlight limits the concurrent requests that write pods. Binding cycles start
// faster than an API server answers: without a limit a backlog of pods becomes as
// many concurrent requests, for which the transport opens a connection per hundred
// requests, and priority and fairness of the API server rejects the others.
const MaxInFlight = 64

// LimitInFlight limits the concurrent requests of clients of config to the capacity
// of slots.
func LimitInFlight(config *restclient.Config, slots chan struct{}) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return inFlightLimiter{next, slots} })
}

// inFlightLimiter passes on as many requests at a time as slots has capacity.
type inFlightLimiter struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip waits for a slot, or until the request is cancelled.
func (b inFlightLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
		return b.next.RoundTrip(request)
	case <-request.Context().Done():
		if request.Body != nil {
			_ = request.Body.Close() // RoundTrip must close it, also unread
		}
		return nil, request.Context().Err()
	}
}

var (
	rebindsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_rebinds_total",
		Help: "[ALPHA] Bindings that were sent again because the answer to the first did not say whether it took effect.",
	})
	statusFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_pod_status_write_failures_total",
		Help: "[ALPHA] Writes of a pod's status that failed. Most are tried again.",
	})
)

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{rebindsTotal, statusFailures} }
