package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// RunPreEnqueuePlugins asks whether a pod may enter the queue: the plugin that
// held it last first, since it most likely holds it still. It returns the
// plugin that does not let it in, or "", and that plugin's status.
// w, which may be nil, watches them.
func (f *Framework) RunPreEnqueuePlugins(ctx context.Context, pod *v1.Pod, lastGate string, w *CallWatch) (gate string, status *fwk.Status) {
	if len(f.preEnqueue) == 0 {
		return "", nil
	}
	ctx, at := f.beginPoint(ctx, nil, "PreEnqueue")
	defer at.end(&status)
	ask := func(plugin fwk.PreEnqueuePlugin) bool {
		f.trial.recordCall(plugin.Name(), "PreEnqueue")
		status = f.callRecovered(pod, plugin.Name(), "PreEnqueue", func() *fwk.Status {
			outer := f.beginCall(w, plugin.Name(), "PreEnqueue")
			defer f.endCall(w, plugin.Name(), outer)
			return plugin.PreEnqueue(ctx, pod)
		})
		return status.IsSuccess()
	}
	for _, plugin := range f.preEnqueue {
		if plugin.Name() == lastGate && !ask(plugin) {
			return lastGate, status
		}
	}
	for _, plugin := range f.preEnqueue {
		if plugin.Name() != lastGate && !ask(plugin) {
			return plugin.Name(), status
		}
	}
	return "", nil
}

// ForeignGate names a PreEnqueue plugin that is not built in, "" where there is
// none.
func (f *Framework) OutOfTreeGate() string {
	for _, plugin := range f.preEnqueue {
		if f.outOfTree.Has(plugin.Name()) {
			return plugin.Name()
		}
	}
	return ""
}

// Hint is an event that a plugin wants to hear of.
type RegisteredEvent struct {
	Plugin string
	// Foreign says that the plugin is not built in.
	OutOfTree bool
	fwk.ClusterEventWithHint
}

// Hints returns the events that may make pods schedulable that the plugins
// refused. A plugin that can refuse and registers nothing is woken by
// everything. The error names the plugin that failed.
func (f *Framework) RegisteredEvents(ctx context.Context) ([]RegisteredEvent, error) {
	var hints []RegisteredEvent
	for _, plugin := range f.plugins {
		if !canReject(plugin) {
			continue
		}
		registered := allEvents
		if extension, ok := plugin.(fwk.EnqueueExtensions); ok {
			var err error
			s := f.callRecovered(nil, plugin.Name(), "EventsToRegister", func() *fwk.Status {
				registered, err = extension.EventsToRegister(ctx)
				return fwk.AsStatus(err)
			})
			if !s.IsSuccess() {
				return nil, &PluginError{Plugin: plugin.Name(), Err: fmt.Errorf("EventsToRegister: %w", s.AsError())}
			}
		}
		for _, event := range registered {
			hints = append(hints, RegisteredEvent{plugin.Name(), f.outOfTree.Has(plugin.Name()), f.recoverHint(plugin.Name(), event)})
		}
	}
	return append(hints, f.extenderEvents()...), nil
}

// recovered wraps a hint so that a panic reads as an error, which wakes the pod.
func (f *Framework) recoverHint(plugin string, event fwk.ClusterEventWithHint) fwk.ClusterEventWithHint {
	ask := event.QueueingHintFn
	if ask == nil {
		return event
	}
	event.QueueingHintFn = func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (hint fwk.QueueingHint, err error) {
		s := f.callRecovered(nil, plugin, "QueueingHint", func() *fwk.Status {
			hint, err = ask(logger, pod, oldObj, newObj)
			return fwk.AsStatus(err)
		})
		return hint, s.AsError()
	}
	return event
}

// refuses says whether a pod can be refused by the plugin and wait for it.
func canReject(plugin fwk.Plugin) bool {
	switch plugin.(type) {
	case fwk.PreEnqueuePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin, fwk.PermitPlugin:
		return true
	}
	return false
}

// everything is what a plugin is woken by that does not say.
var allEvents = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}}}

// What plugins can register for beyond the resources that kube-scheduler names.
// An update is reported, as fwk.Update, when it changes the labels of a
// namespace, or the selector of one of the others.
const (
	// Namespace changes which pods a namespaceSelector speaks of.
	Namespace fwk.EventResource = "Namespace"
	// Service and the three controllers change which pods a default spread
	// constraint counts.
	Service               fwk.EventResource = "Service"
	ReplicationController fwk.EventResource = "ReplicationController"
	ReplicaSet            fwk.EventResource = "apps/ReplicaSet"
	StatefulSet           fwk.EventResource = "apps/StatefulSet"
	// TerminatingPod is a pod on a node whose deletion begins, an fwk.Update:
	// from then on a spread does not count it.
	TerminatingPod fwk.EventResource = "TerminatingPod"
)

// EventObjects gives a queueing hint the old and the new object of an event as
// what they are; the zero T stands for the one that an addition or a deletion
// lacks. The last known state of an object whose deletion was missed counts as
// the old one. The error says what came instead.
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
