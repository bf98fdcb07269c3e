// Package compile answers one question: is this spec runnable, and as what?
// It is pure: a profile and the PluginConfigs it names go in, a Blueprint or a
// Rejection comes out. It does no I/O and keeps no state.
package compile

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// Blueprint is what a spec resolves to: everything that a generation is built
// from, and the hash that names it.
type Blueprint struct {
	// Name is the profile's name, which is its pods' schedulerName.
	Name string
	// Generation is the profile's metadata.generation.
	Generation int64
	// Hash names what runs: ten hex digits of SHA-256 over the resolved spec
	// (api.md: chains, arguments with PluginConfigs inlined, namespaces, queue,
	// extenders, decisions, Berth's version; neither state nor activation).
	Hash string
	// Chains are the effective plugins by extension point, after upstream's
	// merge rules.
	Chains framework.Chains
	// Args holds the decoded, defaulted and validated arguments of every
	// plugin in Chains that takes some.
	Args map[string]runtime.Object
	// ArgsFrom says for each plugin in Args where its arguments came from:
	// "Default", "Inline" or "PluginConfig/<name>".
	ArgsFrom map[string]string
	// PercentageOfNodesToScore is 0 for kube-scheduler's adaptive rule.
	PercentageOfNodesToScore int32
	// Namespaces matches the labels of namespaces whose pods may use the
	// profile; nil: all may.
	Namespaces labels.Selector
	// Extenders are asked beside the plugins, in this order.
	Extenders []extender.Config
	// Queue says how refused pods wait.
	Queue QueueSettings
	// Decisions says what is recorded of each decision.
	Decisions DecisionSettings
	// Configs are the PluginConfigs that the profile names, by name: those that
	// Args inlines, and those for plugins that do not run.
	Configs []ConfigGeneration
}

// QueueSettings are the resolved spec.queue.
type QueueSettings struct {
	// InitialBackoff is how long a pod waits after its first refusal.
	InitialBackoff time.Duration
	// MaxBackoff is the longest such wait.
	MaxBackoff time.Duration
	// FlushAfter is how long a pod may stay unschedulable before it is tried
	// without an event; 0 means never.
	FlushAfter time.Duration
}

// DecisionSettings are the resolved spec.decisions.
type DecisionSettings struct {
	// Annotate says whether bound pods carry the decision.
	Annotate bool
	// TopScores is how many of the best nodes a decision names.
	TopScores int
	// History is how many decisions the profile's status holds.
	History int
	// Publish is the least time between two writes of that history.
	Publish time.Duration
	// Explain says which pods get a SchedulingDecision.
	Explain v1alpha1.Explain
	// Nodes says whether it names nodes.
	Nodes bool
}

// Explains says whether pods are explained that wait.
func (d DecisionSettings) Explains() bool { return d.Explain != v1alpha1.ExplainNone }

// ConfigGeneration names one generation of one PluginConfig.
type ConfigGeneration struct {
	Name       string
	Generation int64
}

// RevisionName names the entry of a profile's history that holds a Blueprint.
func RevisionName(profile, hash string) string { return profile + "-" + hash }
