package queue

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
)

// Rules are what one running profile says about waiting. The queue gets a new
// value at each swap and never changes one.
type Rules struct {
	// Hash names the running instance whose plugins these are. An attempt
	// carries it, so that the loop can tell when another one admitted the pod.
	Hash string
	// Plugins are the prints of the profile's plugins, by name: one with
	// another print is another plugin.
	PluginFingerprints map[string]string
	// Sort names the order: the QueueSort plugin and its arguments. Profiles
	// with the same Sort share one heap, so that priorities order pods across
	// profiles.
	Sort string
	// Makeup says what is new of them at a swap.
	Key ProfileKey
	// Less is the QueueSort plugin's; it must not panic (the runtime recovers).
	Less fwk.LessFunc
	// Clock times the hints of a sample of events; nil times none.
	Clock clock.PassiveClock
	// Hold says why pod must not be tried at all, or the zero Hold.
	Hold func(pod *v1.Pod) Hold
	// PreEnqueue asks the PreEnqueue plugins, the gate that held the pod last
	// first. It returns the plugin that refuses, or "".
	PreEnqueue func(ctx context.Context, pod *v1.Pod, lastGate string) string
	// Hints are the events that the plugins registered, in no order.
	Hints []Hint
	// InitialBackoff and MaxBackoff bound the wait after a refusal, which
	// doubles with each.
	InitialBackoff, MaxBackoff time.Duration
	// FlushAfter is how long a pod stays unschedulable before it is tried
	// without an event; 0 means for ever.
	FlushAfter time.Duration
}

// Hint is one event that may make a pod schedulable that Plugin refused.
type Hint struct {
	Plugin string
	Event  fwk.ClusterEvent
	// Fn says whether it really may; nil means that it always may.
	Fn fwk.QueueingHintFn
}

// Hold is why a pod is kept out of scheduling for another reason than room.
type Hold struct {
	// Reason is the PodScheduled condition's reason, such as ProfilePaused;
	// empty when nothing holds the pod.
	Reason string
	// Message is the condition's text.
	Message string
}

// The reasons for which Berth holds pods. None is Unschedulable: autoscalers
// buy nodes for that word.
const (
	ProfileDeleted = "ProfileDeleted"
	ProfilePaused  = "ProfilePaused"
	Unsupported    = "Unsupported"
	// NamespaceNotAllowed: the profile does not take pods of the namespace.
	NamespaceNotAllowed = "NamespaceNotAllowed"
	// ProfileNotRunning: the profile is there, and no generation of it runs.
	ProfileNotRunning = "ProfileNotRunning"
	// SetAside: plugins panic or hang at the pod, again and again.
	Quarantined = "Quarantined"
)

// GateMessage says that a PreEnqueue plugin holds a pod.
func GateMessage(gate string) string { return "plugin " + gate + " keeps the pod from being tried" }

// strategy is what an event means for a waiting pod.
type queueingStrategy int

const (
	queueSkip queueingStrategy = iota
	// unlessKept leaves a pod asleep, unless the profile holds it or a gate keeps
	// it out; one that was gated is tried when none does any more.
	queueRecheck
	queueAfterBackoff
	queueImmediately
)

// worth says what event means for p, whose newest version is pod: whether a
// plugin that refused it might not do so now. Called without the lock. The
// rule is kube-scheduler's: only the plugins that refused the pod are asked; a
// Pending one wakes it at once; a hint that fails counts as Queue.
func (r *Rules) evaluateHints(logger klog.Logger, p *Pod, pod *v1.Pod, e event) queueingStrategy {
	if !e.concerns(pod) {
		return queueSkip
	}
	if len(p.rejectors) == 0 && len(p.pending) == 0 || e.isWildcard() {
		return queueAfterBackoff
	}
	result := queueSkip
	for _, hint := range r.Hints {
		if !p.rejectors.Has(hint.Plugin) && !p.pending.Has(hint.Plugin) || !matches(hint.Event, e.ClusterEvent) {
			continue
		}
		if hint.Fn != nil {
			begin := r.startHintTimer()
			answer, err := hint.Fn(logger, pod, e.oldObj, e.newObj)
			r.observeHint(begin, hint.Plugin, e, hintResult(answer, err))
			if err != nil {
				logger.Error(err, "Queueing hint failed; taking it for Queue", "plugin", hint.Plugin, "event", e.Label(), "pod", klog.KObj(pod))
			} else if answer == fwk.QueueSkip || fault.HintAlwaysSkips {
				continue
			}
		}
		if p.pending.Has(hint.Plugin) {
			return queueImmediately
		}
		result = queueAfterBackoff
	}
	return result
}

// listeners are the plugins that registered for the event; none where a profile
// has no rules.
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

// mayOpen says whether a gate may have opened by what was heard. That its
// plugin wakes nobody by it does not mean that it still keeps the pod.
func (r *Rules) mayUngate(gate string, heard []event) bool {
	return gate != "" && !fault.OpenGateUnnoticed && slices.ContainsFunc(heard, func(e event) bool {
		return e.ClusterEvent == gateOpened || r.registeredPlugins(e).Has(gate)
	})
}

// reopens says whether an event may change what is known about p already: that
// gate ("": nobody) keeps it out, and how eagerly it is wanted. Called with
// the lock.
func (r *Rules) mayChangeDecision(p *Pod, want queueingStrategy, gate string, e event) bool {
	switch {
	case !e.concerns(p.pod):
		return false
	case e.isWildcard(), e.Resource == fwk.TargetPod:
		return true
	}
	return want < queueImmediately && len(p.pending) > 0 || gate != "" && r.registeredPlugins(e).Has(gate)
}

// event is one thing that happened in the cluster, kept for replay.
type event struct {
	fwk.ClusterEvent
	oldObj, newObj any
	// only, where it is not nil, limits the event to some pods.
	only func(*v1.Pod) bool
}

// reaches says whether the event is for pod at all. What happens to a pod
// itself, and what is wanted of one, is for that one.
func (e event) concerns(pod *v1.Pod) bool {
	if e.only != nil && !fault.WakesItself && !e.only(pod) {
		return false
	}
	if e.Resource == fwk.TargetPod || e.isWildcard() {
		if target, ok := e.newObj.(*v1.Pod); ok && target != nil {
			return target.UID == pod.UID
		}
	}
	return true
}

func (e event) isWildcard() bool { return isWildcard(e.ClusterEvent) }

func isWildcard(e fwk.ClusterEvent) bool {
	return e.Resource == fwk.WildCard && e.ActionType == fwk.All
}

// matches says whether a registered event covers one that happened: the
// resource is the same or wider, and every action that happened was registered.
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
