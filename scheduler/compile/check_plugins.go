package compile

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// checkPluginSet validates the entries of one set, each by itself.
func checkPluginSet(set pluginSet, reg framework.Registry, path *field.Path, errs *fieldErrors) {
	first := map[string]int{}
	for i, p := range set.Enabled {
		at := path.Child("enabled").Index(i)
		if j, twice := first[p.Name]; twice {
			errs.addAccepted(v1alpha1.ReasonInvalidPlugins, at.Child("name"),
				"Duplicate value: %q: enabled[%d] already names it", p.Name, j)
			continue
		}
		first[p.Name] = i
		checkEnabled(set.point, p, reg, at, errs)
	}
	for i, p := range set.Disabled {
		// Disabling a plugin that does not run is valid: one that does not implement
		// this point, or a default plugin that this build lacks. An unknown name is
		// probably misspelt.
		if _, known := reg[p.Name]; !known && p.Name != v1alpha1.AllPlugins && !IsDefault(p.Name) {
			errs.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("disabled").Index(i).Child("name"), "%s", unknownPluginMessage(p.Name, reg))
		}
	}
}

func checkEnabled(point framework.Point, p v1alpha1.EnabledPlugin, reg framework.Registry, path *field.Path, errs *fieldErrors) {
	registration, known := reg[p.Name]
	switch {
	case p.Name == v1alpha1.AllPlugins:
		errs.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("name"), `"*" can be disabled, not enabled: name each plugin`)
	case !known:
		errs.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("name"), "%s", unknownPluginMessage(p.Name, reg))
	case point != "" && !registration.Implements(point):
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("name"),
			"plugin %q does not implement %s: it implements %s", p.Name, point, joinPoints(registration.Points))
	}
	if p.Weight == nil {
		return
	}
	switch {
	case point != "" && point != framework.Score:
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("weight"), "a weight may only be set in score and multiPoint")
	case *p.Weight < 1:
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("weight"),
			"must be at least 1, is %d: to turn the plugin off, list it under disabled", *p.Weight)
	case known && !registration.Implements(framework.Score):
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child("weight"),
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

// checkChains validates the merged chains: one queue sort, at least one bind plugin,
// and no overflow of the total score.
func checkChains(chains framework.Chains, path *field.Path, errs *fieldErrors) {
	switch sorts := chains[framework.QueueSort]; len(sorts) {
	case 1:
	case 0:
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.QueueSort)),
			"no plugin sorts the queue: enable exactly one, such as PrioritySort")
	default:
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.QueueSort)),
			"exactly one plugin may sort the queue, are %d (%s): disable the others", len(sorts), joinEntries(sorts))
	}
	if len(chains[framework.Bind]) == 0 {
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.Bind)),
			"no plugin binds pods: enable at least one, such as DefaultBinder")
	}
	if scoreOverflows(chains[framework.Score], fwk.MaxTotalScore) {
		errs.addAccepted(v1alpha1.ReasonInvalidPlugins, path.Child(string(framework.Score)),
			"a node's total score could overflow: lower the weights")
	}
}

// scoreOverflows reports whether the weighted sum of the highest scores exceeds limit
// (getValidScoreWeights in kube-scheduler's framework/runtime). It subtracts from the
// limit, since the sum itself might overflow. No profile that the API server stores
// comes near, because weights have 32 bits; the limit is a parameter for the test.
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
