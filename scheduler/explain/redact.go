package explain

import (
	"regexp"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// redactedMessage returns the text of an attempt's error without names that a tenant may
// not read, truncated to MaxExplanation characters. The text is truncated to twice that
// first, which bounds the cost.
func (b *Builder) redactedMessage(a Attempt, err error) string {
	text := err.Error()
	if cut := decision.Truncate(text, 2*v1alpha1.MaxExplanation); cut != text {
		// Half a name is no name, and redaction may shorten the text before it.
		text = strings.TrimRight(strings.TrimSuffix(cut, "…"), nameCharacters) + "…"
	}
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

// nameCharacters are those of objectNames.
const nameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789./-"

// objectNames matches what may be an object's name, or several joined by slashes.
var objectNames = regexp.MustCompile(`[a-z0-9]([a-z0-9./-]*[a-z0-9])?`)

// redact replaces names of nodes by <node>, unless the profile's decisions show nodes, and
// pods of other namespaces by <pod>: namespace/name, also within a longer path, and
// namespace/pods/name, as in a URL of the API server. Everybody with read access to the
// namespace reads its SchedulingDecisions. Reasons of in-tree plugins name no objects;
// other plugins, PostFilter and the API server may.
func (b *Builder) redact(a Attempt, text string) string {
	return objectNames.ReplaceAllStringFunc(text, func(word string) string {
		parts := strings.Split(word, "/")
		shown := parts[:0] // not longer than what is read
		for i := 0; i < len(parts); i++ {
			switch {
			case b.isForeignPod(a, parts[i:], 1):
				shown, i = append(shown, "<pod>"), i+1
			case i+1 < len(parts) && parts[i+1] == "pods" && b.isForeignPod(a, parts[i:], 2):
				shown, i = append(shown, "<pod>"), i+2
			case b.isHiddenNode(a, parts[i]):
				shown = append(shown, "<node>")
			default:
				shown = append(shown, parts[i])
			}
		}
		return strings.Join(shown, "/")
	})
}

// isForeignPod reports whether the first part is another namespace than that of the
// explained pod, and has a pod that the part at that index names.
func (b *Builder) isForeignPod(a Attempt, parts []string, name int) bool {
	if name >= len(parts) || parts[0] == a.Pod.Namespace {
		return false
	}
	_, err := b.Pods.Pods(parts[0]).Get(parts[name])
	return err == nil
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
