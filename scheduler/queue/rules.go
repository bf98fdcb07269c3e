package queue

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// Rules are what one running profile says about its pending pods. A Rules value
// never changes: each swap brings a new one.
type Rules struct {
	// Hash is the hash of the running profile. An attempt carries it, so that the loop
	// can tell when another version of the profile admitted the pod.
	Hash string
	// PluginFingerprints are the fingerprints of the profile's plugins by name. They
	// change when a plugin is replaced or gets other arguments.
	PluginFingerprints map[string]string
	// Sort names the order: the QueueSort plugin and its arguments. Profiles with the
	// same Sort share one sub-queue, so that priorities order pods across profiles.
	Sort string
	// Key is what a swap compares to find the pods that it concerns.
	Key ProfileKey
	// Less is the QueueSort plugin's. It must not panic; the framework recovers it.
	Less fwk.LessFunc
	// Clock times a sample of the hints; nil times none.
	Clock clock.PassiveClock
	// Groups says that the pods of a group wait, and are tried, together: the profile has
	// the plugin GangScheduling. Otherwise each pod waits on its own.
	Groups bool
	// Hold returns why pod must not be scheduled at all, or the zero Hold.
	Hold func(pod *v1.Pod) Hold
	// PreEnqueue runs the PreEnqueue plugins, the one that gated the pod last first.
	// It returns the name of the plugin that gates the pod, or "".
	PreEnqueue func(ctx context.Context, pod *v1.Pod, lastGate string) string
	// Hints are the events that the plugins registered, in no order.
	Hints []Hint
	// InitialBackoff is the backoff after the first refusal. It doubles with each
	// refusal, up to MaxBackoff.
	InitialBackoff, MaxBackoff time.Duration
	// FlushAfter is how long a pod stays unschedulable before it is retried without an
	// event; 0 means for ever.
	FlushAfter time.Duration
}

// Hint is one event that may make a pod schedulable that Plugin refused.
type Hint struct {
	Plugin string
	Event  fwk.ClusterEvent
	// Fn decides whether an event may; nil means that each one may.
	Fn fwk.QueueingHintFn
	// OwnGroup says that only pods in the group of the event's object are concerned: see
	// framework.GroupEventsPlugin.
	OwnGroup bool
}

// Hold is why a pod is not scheduled for a reason other than resources and nodes.
type Hold struct {
	// Reason is the reason of the PodScheduled condition, such as ProfilePaused; empty
	// when the pod is not held.
	Reason string
	// Message is the message of the condition.
	Message string
}

// The reasons of holds. None is Unschedulable, because autoscalers add nodes for
// pods with that reason.
const (
	ProfileDeleted = "ProfileDeleted"
	ProfilePaused  = "ProfilePaused"
	Unsupported    = "Unsupported"
	// NamespaceNotAllowed: the profile does not accept pods of the namespace.
	NamespaceNotAllowed = "NamespaceNotAllowed"
	// ProfileNotRunning: the profile exists and no generation of it runs.
	ProfileNotRunning = "ProfileNotRunning"
	// Quarantined: plugins panicked or hung at the pod repeatedly.
	Quarantined = "Quarantined"
)

// GateMessage returns the condition message of a pod that a PreEnqueue plugin
// gates.
func GateMessage(gate string) string { return "plugin " + gate + " keeps the pod from being tried" }

// queueingStrategy is how a waiting pod is requeued, from the weakest to the
// strongest.
type queueingStrategy int

const (
	queueSkip queueingStrategy = iota
	// queueRecheck checks holds and gates. An unschedulable pod stays so unless it is
	// held or gated; a gated pod that no plugin gates any more is queued after its
	// backoff.
	queueRecheck
	queueAfterBackoff
	queueImmediately
)

// evaluateHints returns how an event requeues p, whose newest version is pod. It
// is called without q.mu. The rules are kube-scheduler's: only hints of the plugins
// that refused the pod are called, an event for a plugin that returned Pending
// queues the pod immediately, and a hint that fails counts as Queue.
func (r *Rules) evaluateHints(logger klog.Logger, p *Entity, pod *v1.Pod, e event) queueingStrategy {
	if !e.concerns(pod) {
		return queueSkip
	}
	if len(p.rejectors) == 0 && len(p.pending) == 0 || e.isWildcard() {
		return queueAfterBackoff
	}
	strategy := queueSkip
	for _, hint := range r.Hints {
		if !p.rejectors.Has(hint.Plugin) && !p.pending.Has(hint.Plugin) || !matches(hint.Event, e.ClusterEvent) {
			continue
		}
		if hint.Fn != nil {
			begin := r.startHintTimer()
			result, err := hint.Fn(logger, pod, e.oldObj, e.newObj)
			r.observeHint(begin, hint.Plugin, e, hintResult(result, err))
			if err != nil {
				logger.Error(err, "Queueing hint failed, its result counts as Queue", "plugin", hint.Plugin, "event", e.Label(), "pod", klog.KObj(pod))
			} else if result == fwk.QueueSkip {
				continue
			}
		}
		if p.pending.Has(hint.Plugin) {
			return queueImmediately
		}
		strategy = queueAfterBackoff
	}
	return strategy
}

// registeredPlugins returns the plugins that registered for the event; none when r
// is nil.
func (r *Rules) registeredPlugins(e event) sets.Set[string] {
	plugins := sets.Set[string]{}
	if r == nil {
		return plugins
	}
	for _, hint := range r.Hints {
		if matches(hint.Event, e.ClusterEvent) {
			plugins.Insert(hint.Plugin)
		}
	}
	return plugins
}

// needsOwnGroup reports whether e concerns, of the pods that these plugins block, only those
// in the group of its object.
func (r *Rules) needsOwnGroup(plugins []string, e event) bool {
	return r != nil && !e.isWildcard() && !slices.ContainsFunc(r.Hints, func(hint Hint) bool {
		return !hint.OwnGroup && matches(hint.Event, e.ClusterEvent) && slices.Contains(plugins, hint.Plugin)
	})
}

// mayUngate reports whether the gating plugin may let the pod pass after these
// events. QueueSkip from its hint does not mean that the plugin still gates the pod.
func (r *Rules) mayUngate(gate string, events []event) bool {
	return gate != "" && slices.ContainsFunc(events, func(e event) bool {
		return e.ClusterEvent == gateOpened || r.registeredPlugins(e).Has(gate)
	})
}

// mayChangeDecision reports whether an event may change what requeue has found
// about p: that gate ("" for none) gates it, and strategy. The caller holds q.mu.
func (r *Rules) mayChangeDecision(p *Entity, strategy queueingStrategy, gate string, e event) bool {
	switch {
	case !e.concernsAny(p):
		return false
	case e.isWildcard(), e.Resource == fwk.TargetPod:
		return true
	}
	return strategy < queueImmediately && len(p.pending) > 0 || gate != "" && r.registeredPlugins(e).Has(gate)
}

// event is a cluster event as the in-flight log records it.
type event struct {
	fwk.ClusterEvent
	oldObj, newObj any
	// only, unless nil, limits the event to the pods for which it returns true.
	only func(*v1.Pod) bool
}

// concerns reports whether the event is meant for pod. An update of a pending pod,
// and a wildcard event that carries a pod, are meant for that pod alone.
func (e event) concerns(pod *v1.Pod) bool {
	if e.only != nil && !e.only(pod) {
		return false
	}
	if e.Resource == fwk.TargetPod || e.isWildcard() {
		if target, ok := e.newObj.(*v1.Pod); ok && target != nil {
			return target.UID == pod.UID
		}
	}
	return true
}

// objectGroup returns the group of the event's object, the zero Key for a pod in none; ok is
// false for an object of another kind.
func (e event) objectGroup() (key podgroups.Key, ok bool) {
	object := e.newObj
	if object == nil {
		object = e.oldObj
	}
	switch object := object.(type) {
	case *v1.Pod:
		key, _ = podgroups.KeyOf(object)
		return key, true
	case *schedulingv1beta1.PodGroup:
		return podgroups.KeyOfPodGroup(object), true
	}
	return key, false
}

// concernsAny reports whether the event is meant for a pod of p.
func (e event) concernsAny(p *Entity) bool {
	for pod := range p.pods() {
		if e.concerns(pod.pod) {
			return true
		}
	}
	return false
}

func (e event) isWildcard() bool { return isWildcard(e.ClusterEvent) }

func isWildcard(e fwk.ClusterEvent) bool {
	return e.Resource == fwk.WildCard && e.ActionType == fwk.All
}

// matches reports whether a registered event covers one that happened: its
// resource is the same or wider, and it registered every action that happened.
// Source: k8s.io/kubernetes/pkg/scheduler/framework, MatchClusterEvents.
func matches(registered, happened fwk.ClusterEvent) bool {
	if isWildcard(registered) {
		return true
	}
	return covers(registered.Resource, happened.Resource) &&
		registered.ActionType&happened.ActionType != 0 &&
		happened.ActionType <= registered.ActionType
}

func covers(registered, happened fwk.EventResource) bool {
	switch {
	case registered == fwk.WildCard, registered == happened:
		return true
	case registered == fwk.Pod:
		return happened == fwk.AssignedPod || happened == fwk.UnscheduledPod || happened == fwk.TargetPod
	}
	return false
}
