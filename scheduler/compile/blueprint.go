// Package compile turns a SchedulingProfile and the PluginConfigs that it names
// into a Blueprint, or into a Rejection that says why the spec cannot run. It is
// pure: it does no I/O and keeps no state.
package compile

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// Blueprint is a resolved spec: all that a generation of plugins is built from, and
// the hash that identifies it.
type Blueprint struct {
	// Name is the profile's name and the schedulerName of its pods.
	Name string
	// Generation is the profile's metadata.generation.
	Generation int64
	// Hash identifies what runs: the first ten hex digits of SHA-256 over the
	// resolved spec. It covers chains, arguments (PluginConfigs inlined), namespaces,
	// queue, extenders, decisions and Berth's version, but neither state nor activation.
	Hash string
	// Chains are the plugins that run at each extension point, after the merge rules
	// of kube-scheduler.
	Chains framework.Chains
	// Args holds the decoded, defaulted and validated arguments of every plugin in
	// Chains that takes arguments.
	Args map[string]runtime.Object
	// ArgsFrom is the source of each entry of Args: "Default", "Inline" or
	// "PluginConfig/<name>".
	ArgsFrom map[string]string
	// PercentageOfNodesToScore is 0 for kube-scheduler's adaptive percentage.
	PercentageOfNodesToScore int32
	// Namespaces selects the namespaces whose pods may use the profile, by their
	// labels; nil selects all.
	Namespaces labels.Selector
	// Extenders are the extenders in the order in which they are called.
	Extenders []extender.Config
	// Queue holds backoff and flush times.
	Queue QueueSettings
	// Decisions says what the scheduler records of each decision.
	Decisions DecisionSettings
	// Configs are the generations of all PluginConfigs that the profile names, sorted
	// by name, also of those for plugins that do not run.
	Configs []ConfigGeneration
}

// QueueSettings are the resolved spec.queue. The field names are part of the hash.
type QueueSettings struct {
	// InitialBackoff is the backoff after the first failed attempt.
	InitialBackoff time.Duration
	// MaxBackoff bounds the backoff.
	MaxBackoff time.Duration
	// FlushAfter is how long a pod may stay unschedulable before it is retried
	// without an event; 0 means for ever.
	FlushAfter time.Duration
}

// DecisionSettings are the resolved spec.decisions. The field names are part of the
// hash.
type DecisionSettings struct {
	// Annotate puts the decision into an annotation of each bound pod.
	Annotate bool
	// TopScores is how many nodes with the best scores a decision names.
	TopScores int
	// History is how many decisions the profile's status holds.
	History int
	// Publish is the least time between two writes of that history.
	Publish time.Duration
	// Explain selects the pods that get a SchedulingDecision.
	Explain v1alpha1.Explain
	// Nodes lets a SchedulingDecision name nodes.
	Nodes bool
}

// Explains reports whether pending pods get a SchedulingDecision.
func (d DecisionSettings) Explains() bool { return d.Explain != v1alpha1.ExplainNone }

// ConfigGeneration identifies a generation of a PluginConfig. It is not part of the
// hash, which covers the arguments themselves.
type ConfigGeneration struct {
	Name       string
	Generation int64
	// UID is the metadata.uid: a PluginConfig that is deleted and created again has the
	// same name and generation 1 again.
	UID types.UID
}

// RevisionName is the name under which a profile's history stores the Blueprint
// with this hash.
func RevisionName(profile, hash string) string { return profile + "-" + hash }
