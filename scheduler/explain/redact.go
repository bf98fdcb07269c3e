package explain

import (
	"regexp"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// redactedMessage returns the text of an attempt's error without names that a tenant may
// not read, truncated to MaxExplanation characters. The text is truncated to twice that
// first, which bounds the cost; a name that this cuts in two is cut off afterwards.
func (b *Builder) redactedMessage(a Attempt, err error) string {
	text := decision.Truncate(err.Error(), 2*v1alpha1.MaxExplanation)
	return decision.Truncate(b.redact(a, text), v1alpha1.MaxExplanation)
}

// Redactor returns a function that redacts the reasons of out-of-tree plugins.
func (b *Builder) Redactor(a Attempt) func(plugin, reason string) string {
	return func(plugin, reason string) string {
		if a.InTree(plugin) {
			return reason
		}
		return b.redact(a, reason)
	}
}

// objectNames matches what may be an object's name, or several joined by slashes.
var objectNames = regexp.MustCompile(`[a-z0-9]([a-z0-9./-]*[a-z0-9])?`)

// redact replaces names of nodes by <node>, unless the profile's decisions show nodes, and
// namespace/name of pods of other namespaces by <pod>. Everybody with read access to the
// namespace reads its SchedulingDecisions. Reasons of in-tree plugins name no objects;
// other plugins, PostFilter and the API server may.
func (b *Builder) redact(a Attempt, text string) string {
	return objectNames.ReplaceAllStringFunc(text, func(word string) string {
		parts := strings.Split(word, "/")
		if len(parts) == 2 && parts[0] != a.Pod.Namespace {
			if _, err := b.Pods.Pods(parts[0]).Get(parts[1]); err == nil {
				return "<pod>"
			}
		}
		for i, part := range parts {
			if b.isHiddenNode(a, part) {
				parts[i] = "<node>"
			}
		}
		return strings.Join(parts, "/")
	})
}

// isHiddenNode reports whether word is the name of a node that must be hidden. A number
// counts as a number, even where a node has that name.
func (b *Builder) isHiddenNode(a Attempt, word string) bool {
	switch {
	case a.Blueprint.Decisions.Nodes, strings.Trim(word, "0123456789") == "":
		return false
	case a.NominatingInfo != nil && word == a.NominatingInfo.NominatedNodeName, a.Placement != nil && word == a.Placement.Node:
		return true // the node may have been deleted meanwhile
	}
	_, err := b.Nodes.Get(word)
	return err == nil
}
