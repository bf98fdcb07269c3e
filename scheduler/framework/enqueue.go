package framework

import (
	"cmp"
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// RunPreEnqueuePlugins calls PreEnqueue of every plugin until one rejects the
// pod, and returns that plugin's name (or "") and status. It calls lastGate,
// the plugin that rejected the pod last, first, because it most likely rejects
// it again. w tracks the calls; may be nil.
func (f *Framework) RunPreEnqueuePlugins(ctx context.Context, pod *v1.Pod, lastGate string, w *CallWatch) (gate string, status *fwk.Status) {
	if len(f.preEnqueue) == 0 {
		return "", nil
	}
	ctx, point := f.beginPoint(ctx, nil, "PreEnqueue")
	defer point.end(&status)
	var state fwk.CycleState // made for the CallWatch alone
	if w != nil {
		state = &CycleState{callWatch: w}
	}
	call := func(plugin fwk.PreEnqueuePlugin) bool {
		status = f.callRecovered(pod, state, plugin.Name(), "PreEnqueue", func() *fwk.Status {
			call := f.beginCall(state, plugin.Name(), "PreEnqueue")
			s := plugin.PreEnqueue(ctx, pod)
			return cmp.Or(call.end(s), s)
		})
		return status.IsSuccess()
	}
	for _, plugin := range f.preEnqueue {
		if plugin.Name() == lastGate && !call(plugin) {
			return lastGate, status
		}
	}
	for _, plugin := range f.preEnqueue {
		if plugin.Name() != lastGate && !call(plugin) {
			return plugin.Name(), status
		}
	}
	return "", nil
}

// OutOfTreeGate names an out-of-tree PreEnqueue plugin, or returns "".
func (f *Framework) OutOfTreeGate() string {
	for _, plugin := range f.preEnqueue {
		if f.outOfTree.Has(plugin.Name()) {
			return plugin.Name()
		}
	}
	return ""
}

// RegisteredEvent is an event for which a plugin registered.
type RegisteredEvent struct {
	Plugin string
	// OutOfTree says that the plugin is not in-tree.
	OutOfTree bool
	// OwnGroup says that the plugin is a GroupEventsPlugin.
	OwnGroup bool
	fwk.ClusterEventWithHint
}

// RegisteredEvents returns the events that may make pods schedulable which a
// plugin rejected. A plugin that can reject pods and registers nothing gets all
// events. The error is a *PluginError.
func (f *Framework) RegisteredEvents(ctx context.Context) ([]RegisteredEvent, error) {
	var hints []RegisteredEvent
	for _, plugin := range f.plugins {
		if !canReject(plugin) {
			continue
		}
		registered := allEvents
		if extension, ok := plugin.(fwk.EnqueueExtensions); ok {
			var err error
			s := f.callRecovered(nil, nil, plugin.Name(), "EventsToRegister", func() *fwk.Status {
				registered, err = extension.EventsToRegister(ctx)
				return fwk.AsStatus(err)
			})
			if !s.IsSuccess() {
				return nil, &PluginError{Plugin: plugin.Name(), Err: fmt.Errorf("EventsToRegister: %w", s.AsError())}
			}
		}
		_, ownGroup := plugin.(GroupEventsPlugin)
		for _, event := range registered {
			hints = append(hints, RegisteredEvent{
				Plugin: plugin.Name(), OutOfTree: f.outOfTree.Has(plugin.Name()), OwnGroup: ownGroup,
				ClusterEventWithHint: f.recoverHint(plugin.Name(), event),
			})
		}
	}
	return append(hints, f.extenderEvents()...), nil
}

// recoverHint wraps a queueing hint so that a panic becomes an error, on which
// the queue requeues the pod.
func (f *Framework) recoverHint(plugin string, event fwk.ClusterEventWithHint) fwk.ClusterEventWithHint {
	call := event.QueueingHintFn
	if call == nil {
		return event
	}
	event.QueueingHintFn = func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (hint fwk.QueueingHint, err error) {
		s := f.callRecovered(nil, nil, plugin, "QueueingHint", func() *fwk.Status {
			hint, err = call(logger, pod, oldObj, newObj)
			return fwk.AsStatus(err)
		})
		return hint, s.AsError()
	}
	return event
}

// canReject reports whether the plugin can reject pods at an extension point
// after which they wait for events.
func canReject(plugin fwk.Plugin) bool {
	switch plugin.(type) {
	case fwk.PreEnqueuePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin, fwk.PermitPlugin:
		return true
	}
	return false
}

// allEvents are the events of plugins that do not implement EnqueueExtensions.
var allEvents = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}}}

// Event resources for which plugins can register, in addition to
// kube-scheduler's. An update (fwk.Update) is reported only if it changes the
// labels of a namespace, or the selector of a Service or controller.
const (
	// Namespace events change which pods a namespaceSelector matches.
	Namespace fwk.EventResource = "Namespace"
	// Service and controller events change which pods a default spread
	// constraint counts.
	Service               fwk.EventResource = "Service"
	ReplicationController fwk.EventResource = "ReplicationController"
	ReplicaSet            fwk.EventResource = "apps/ReplicaSet"
	StatefulSet           fwk.EventResource = "apps/StatefulSet"
	// TerminatingPod is an update (fwk.Update) of an assigned pod whose
	// deletion begins. From then on topology spread does not count it.
	TerminatingPod fwk.EventResource = "TerminatingPod"
)

// EventObjects returns old and new object of an event with their type, for a
// queueing hint. The zero value stands for a missing one, as in an add or a
// delete. If the delete event was missed, before is the last known state. The
// error says which type came instead.
func EventObjects[T any](oldObj, newObj any) (before, after T, err error) {
	if unknown, ok := oldObj.(cache.DeletedFinalStateUnknown); ok {
		oldObj = unknown.Obj
	}
	for _, object := range []struct {
		from any
		to   *T
	}{{oldObj, &before}, {newObj, &after}} {
		if object.from == nil {
			continue
		}
		typed, ok := object.from.(T)
		if !ok {
			return before, after, fmt.Errorf("the event is about a %T, want a %T", object.from, *object.to)
		}
		*object.to = typed
	}
	return before, after, nil
}
