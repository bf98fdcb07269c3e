package compile

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// checkPluginSet judges the entries of one set, each by itself.
func checkPluginSet(set pluginSet, reg framework.Registry, path *field.Path, found *fieldErrors) {
	first := map[string]int{}
	for i, p := range set.Enabled {
		at := path.Child("enabled").Index(i)
		if j, twice := first[p.Name]; twice {
			found.addAccepted(v1alpha1.ReasonInvalidPlugins, at.Child("name"),
				"plugin %q is here twice: enabled[%d] names it already", p.Name, j)
			continue
		}
		first[p.Name] = i
		checkEnabled(set.point, p, reg, at, found)
	}
	for i, p := range set.Disabled {
		// Disabling what is not there anyway is true, not wrong: a plugin that
		// has no say at this point, or one of kube-scheduler's that this build
		// lacks. A name that nobody knows is a slip of the pen.
		if _, known := reg[p.Name]; !known && p.Name != v1alpha1.AllPlugins && !IsDefault(p.Name) {
			found.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("disabled").Index(i).Child("name"), "%s", unknownPluginMessage(p.Name, reg))
		}
	}
}

func checkEnabled(point framework.Point, p v1alpha1.EnabledPlugin, reg framework.Registry, path *field.Path, found *fieldErrors) {
	registration, known := reg[p.Name]
	switch {
	case p.Name == v1alpha1.AllPlugins:
		found.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("name"), `"*" can be disabled, not enabled: name each plugin`)
	case !known:
		found.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("name"), "%s", unknownPluginMessage(p.Name, reg))
	case point != "" && !registration.Implements(point):
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("name"),
			"plugin %q does not implement %s: it implements %s", p.Name, point, joinPoints(registration.Points))
	}
	if p.Weight == nil {
		return
	}
	switch {
	case point != "" && point != framework.Score:
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("weight"), "a weight may only be set in score and multiPoint")
	case *p.Weight < 1:
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("weight"),
			"must be at least 1, is %d: to take a plugin's say away, list it under disabled", *p.Weight)
	case known && !registration.Implements(framework.Score):
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("weight"),
			"plugin %q does not score, so a weight would do nothing: leave it out", p.Name)
	}
}

func joinPoints(points []framework.Point) string {
	if len(points) == 0 {
		return "no extension point"
	}
	names := make([]string, len(points))
	for i, p := range points {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// checkChains judges what came out of the merge as a whole.
func checkChains(chains framework.Chains, path *field.Path, found *fieldErrors) {
	switch sorts := chains[framework.QueueSort]; len(sorts) {
	case 1:
	case 0:
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.QueueSort)),
			"no plugin sorts the queue: enable exactly one, such as PrioritySort")
	default:
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.QueueSort)),
			"exactly one plugin may sort the queue, here are %d (%s): disable the others", len(sorts), joinEntries(sorts))
	}
	if len(chains[framework.Bind]) == 0 {
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.Bind)),
			"no plugin binds pods: enable at least one, such as DefaultBinder")
	}
	if scoreOverflows(chains[framework.Score], fwk.MaxTotalScore) {
		found.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.Score)),
			"a node's total score could overflow: lower the weights")
	}
}

// scoreOverflows reports whether the weighted sum of the best scores exceeds
// limit (getValidScoreWeights in kube-scheduler's framework/runtime). The sum
// itself might not fit, so it subtracts from the limit. No profile that the API
// server stores comes near: weights are 32 bits wide. The limit is an argument
// so that a test can.
func scoreOverflows(scores []framework.Entry, limit int64) bool {
	left := limit
	for _, e := range scores {
		best := int64(e.Weight) * fwk.MaxScore
		if best > left {
			return true
		}
		left -= best
	}
	return false
}

func joinEntries(entries []framework.Entry) string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
