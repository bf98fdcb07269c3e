package explain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Builder builds explanations. It does no I/O, and is safe for concurrent use.
type Builder struct {
	// Pods and Nodes find the names that must be redacted.
	Pods  corelisters.PodLister
	Nodes corelisters.NodeLister
	// Now returns the time.
	Now func() time.Time
}

// Attempt is what a scheduling attempt found out.
type Attempt struct {
	Pod       *v1.Pod
	Blueprint *compile.Blueprint
	// Placement is the chosen node, NodeCount the number of nodes in the snapshot; nil and 0
	// where the cycle chose none.
	Placement *cycle.Placement
	NodeCount int
	// Group is the group that the pod was tried with; nil for a pod on its own. Without the
	// number of its pods, the explanation of another pod of the group, ExplainedBy, says why
	// they wait.
	Group *v1alpha1.DecisionGroup
	// Result is how the attempt ended.
	Result v1alpha1.DecisionResult
	// Preemption is its outcome; nil when no plugin tried it. NominatingInfo is what PostFilter
	// returned; may be nil.
	Preemption     *v1alpha1.PreemptionResult
	NominatingInfo *fwk.NominatingInfo
	// InTree reports whether a plugin is in-tree.
	InTree func(plugin string) bool
	// RequeueEvents returns the events that a plugin registered.
	RequeueEvents func(plugin string) []string
}

// newExplanation returns the explanation of a pod without its reason. blueprint is nil
// where no profile runs.
func (b *Builder) newExplanation(pod *v1.Pod, blueprint *compile.Blueprint) decision.Explanation {
	e := decision.Explanation{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
	e.Status.Profile.Name, e.Status.LastChange = pod.Spec.SchedulerName, b.now()
	if blueprint != nil {
		e.Status.Profile = v1alpha1.DecidedBy{Name: blueprint.Name, Generation: blueprint.Generation, Hash: blueprint.Hash}
		e.Nodes = blueprint.Decisions.Nodes
	}
	return e
}

func (b *Builder) now() metav1.Time { return metav1.NewTime(b.Now()) }

// queuePlace returns the status field for a pod that waits in place from now on.
func (b *Builder) queuePlace(place queue.Place) *v1alpha1.DecisionQueue {
	return &v1alpha1.DecisionQueue{Where: string(place), Since: b.now()}
}

// Failure returns the explanation of an attempt that ended with err, with all fields that
// distinguish its reasons from others; the rest is left to AddMessage.
func (b *Builder) Failure(a Attempt, err error) *decision.Explanation {
	e := b.newExplanation(a.Pod, a.Blueprint)
	e.Status.Result = v1alpha1.ResultError
	if a.Result == v1alpha1.ResultUnschedulable {
		e.Status.Result = v1alpha1.ResultUnschedulable
	}
	// An event that came during the attempt may activate the pod at once; then its next
	// attempt replaces this explanation.
	e.Status.Queue, e.Status.Group = b.queuePlace(queue.Backoff), a.Group
	if a.explainedByAnother() {
		e.Status.Message = messageOfMember(a.Group)
		a.setPreemption(&e.Status)
		return &e
	}
	e.Status.Nodes = a.nodeCounts(err)
	var fitErr *framework.FitError
	var rejected *binding.BindRejectedError
	var unfit *cycle.GroupUnschedulableError
	switch {
	case errors.As(err, &fitErr):
		e.Status.Rejections, e.Status.BlockedBy = cycle.Rejections(fitErr, b.Redactor(a))
		if a.Group == nil && len(fitErr.Diagnosis.UnschedulablePlugins)+len(fitErr.Diagnosis.PendingPlugins) > 0 {
			e.Status.Queue.Where = string(queue.Unschedulable)
		}
		a.setPreemption(&e.Status)
	case errors.As(err, &unfit):
		a.setPreemption(&e.Status)
	case errors.As(err, &rejected):
		e.Status.BlockedBy = rejected.Plugin
	}
	if len(e.Status.Rejections) == 0 {
		// Without rejections only the message distinguishes this failure from others.
		e.Status.Message = b.redactedMessage(a, err)
	}
	return &e
}

// AddMessage adds the fields that do not distinguish a failure from others: the message
// and the events that requeue the pod.
func (b *Builder) AddMessage(e *decision.Explanation, a Attempt, err error) {
	if a.explainedByAnother() {
		return
	}
	e.Status.Message = b.redactedMessage(a, err)
	var fitErr *framework.FitError
	if errors.As(err, &fitErr) {
		plugins := fitErr.Diagnosis.UnschedulablePlugins.Union(fitErr.Diagnosis.PendingPlugins)
		e.Status.RequeueEvents = RequeueEvents(a.RequeueEvents, sets.List(plugins)...)
	}
}

// WaitingOnPermit returns the explanation of a pod that waits on these Permit plugins.
func (b *Builder) WaitingOnPermit(a Attempt, plugins []string) decision.Explanation {
	e := b.newExplanation(a.Pod, a.Blueprint)
	e.Status.Result, e.Status.Nodes, e.Status.Queue = v1alpha1.ResultWaitingOnPermit, a.nodeCounts(nil), b.queuePlace(queue.InFlight)
	e.Status.BlockedBy = strings.Join(plugins, ", ")
	e.Status.Message = "a node is chosen; the pod waits for " + e.Status.BlockedBy
	return e
}

// Bound returns the explanation of a bound pod.
func (b *Builder) Bound(a Attempt) decision.Explanation {
	e := b.newExplanation(a.Pod, a.Blueprint)
	e.Status.Result, e.Status.Nodes = v1alpha1.ResultBound, a.nodeCounts(nil)
	return e
}

// Held returns the explanation of a pod that is held by its profile or quarantined.
// blueprint is nil where no profile runs.
func (b *Builder) Held(pod *v1.Pod, blueprint *compile.Blueprint, hold queue.Hold) decision.Explanation {
	e := b.newExplanation(pod, blueprint)
	e.Status.Result, e.Status.Queue = v1alpha1.ResultHeld, b.queuePlace(queue.Held)
	if hold.Reason == queue.Quarantined {
		e.Status.Result = v1alpha1.ResultQuarantined
	}
	e.Status.BlockedBy, e.Status.Message = hold.Reason, hold.Message
	return e
}

// Gate is why a PreEnqueue plugin keeps a pod from being tried.
type Gate struct {
	// Plugin is the plugin's name.
	Plugin string
	// Group is the group that the pod waits with; see Attempt. Missing is what the group lacks;
	// empty where the plugin is not about that.
	Group   *v1alpha1.DecisionGroup
	Missing string
	// Preemption counts the victims that are being evicted for the pod or its group; nil where
	// none are.
	Preemption *v1alpha1.PreemptionResult
	// RequeueEvents are those that the plugin registered.
	RequeueEvents []v1alpha1.RequeueEvents
}

// Gated returns the explanation of a pod that a PreEnqueue plugin holds.
func (b *Builder) Gated(pod *v1.Pod, blueprint *compile.Blueprint, gate Gate) decision.Explanation {
	e := b.newExplanation(pod, blueprint)
	e.Status.Result, e.Status.Queue = v1alpha1.ResultGated, b.queuePlace(queue.Gated)
	e.Status.Queue.Gate, e.Status.BlockedBy = gate.Plugin, gate.Plugin
	e.Status.Group, e.Status.Preemption, e.Status.RequeueEvents = gate.Group, gate.Preemption, gate.RequeueEvents
	if gate.Preemption != nil {
		e.Status.Result = v1alpha1.ResultPreempting
	}
	e.Status.Message = queue.GateMessage(gate.Plugin)
	switch {
	case pointsToAnother(gate.Group):
		e.Status.Message, e.Status.RequeueEvents = messageOfMember(gate.Group), nil
	case gate.Missing != "":
		e.Status.Message += ": " + gate.Missing
	}
	return e
}

// RequeueEvents returns the events that the plugins registered, by plugin.
func RequeueEvents(registered func(plugin string) []string, plugins ...string) (all []v1alpha1.RequeueEvents) {
	for _, plugin := range plugins {
		if events := registered(plugin); len(events) > 0 {
			all = append(all, v1alpha1.RequeueEvents{Plugin: plugin, Events: decision.Summarize(events, func(rest []string) string {
				return fmt.Sprintf("%d more", len(rest))
			})})
		}
	}
	return decision.Summarize(all, func(rest []v1alpha1.RequeueEvents) v1alpha1.RequeueEvents {
		return v1alpha1.RequeueEvents{Plugin: fmt.Sprintf("%d more plugins", len(rest)), Events: []string{}}
	})
}

// nodeCounts returns the node counts of an attempt that ended with err; nil when it
// evaluated no node.
func (a Attempt) nodeCounts(err error) *v1alpha1.DecisionNodes {
	var fitErr *framework.FitError
	switch {
	case a.Placement != nil:
		return decisionNodes(a.NodeCount, a.Placement.Evaluated, a.Placement.Feasible)
	case errors.As(err, &fitErr):
		return decisionNodes(fitErr.NumAllNodes, fitErr.Diagnosis.NodeToStatus.Len(), 0)
	case errors.Is(err, cycle.ErrNoNodes):
		return decisionNodes(0, 0, 0)
	}
	return nil
}

func decisionNodes(total, evaluated, feasible int) *v1alpha1.DecisionNodes {
	return &v1alpha1.DecisionNodes{
		Total: int32(total), Evaluated: int32(evaluated), Feasible: int32(feasible), Summary: fmt.Sprintf("%d/%d", feasible, total),
	}
}

// setPreemption sets what preemption did for the pod.
func (a Attempt) setPreemption(s *v1alpha1.SchedulingDecisionStatus) {
	if s.Preemption = a.Preemption; a.isPreempting() {
		s.Result = v1alpha1.ResultPreempting
	}
}

// isPreempting reports whether victims are being evicted for the pod, by Berth's own
// preemption or by a PostFilter plugin that nominated a node.
func (a Attempt) isPreempting() bool {
	if a.Preemption != nil {
		return a.Preemption.Outcome == v1alpha1.PreemptionVictimsChosen || a.Preemption.Outcome == v1alpha1.PreemptionUnderWay
	}
	return a.NominatingInfo != nil && a.NominatingInfo.NominatedNodeName != ""
}
