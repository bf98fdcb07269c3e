package cycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// Rejections groups what was said about all nodes by plugin, code and reason,
// those of most nodes first, and says which plugins keep the pod from how many
// nodes. word words a plugin's reason. Nodes that nobody asked count for the
// plugins that ruled them out. What is too much for an explanation is summed up,
// the rarest first.
func Rejections(unfit *framework.FitError, word func(plugin, reason string) string) (rejections []decision.Rejection, blockedBy string) {
	type key struct{ plugin, code, reason string }
	places, blame := map[key]int{}, map[string]int32{}
	for _, v := range unfit.StatusCounts() {
		plugin := v.Plugin()
		if plugin == "" && v.ExampleNode == "" {
			plugin = strings.Join(unfit.Diagnosis.NarrowedBy, " and ")
		}
		blame[plugin] += int32(v.Nodes)
		reasons := slices.Clone(v.Reasons())
		for i := range reasons {
			reasons[i] = word(plugin, reasons[i])
		}
		for _, reason := range distinct(reasons) { // a node counts once for a reason
			k := key{plugin, v.Code().String(), reason}
			at, known := places[k]
			if !known {
				at = len(rejections)
				places[k] = at
				rejections = append(rejections, decision.Rejection{Plugin: plugin, Code: k.code, Reason: k.reason, ExampleNode: v.ExampleNode})
			}
			rejections[at].Nodes += int32(v.Nodes)
		}
	}
	slices.SortFunc(rejections, func(a, b decision.Rejection) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return decision.Summarize(rejections, summarizeRest), formatBlockedBy(blame)
}

// rarest sums up reasons, those of most nodes first. A node may have several of
// them: they hold for as many as the first at least.
func summarizeRest(rest []decision.Rejection) decision.Rejection {
	return decision.Rejection{Code: rest[0].Code, Reason: fmt.Sprintf("%d more reasons", len(rest)), Nodes: rest[0].Nodes}
}

// blamed names the plugins, those of most nodes first.
func formatBlockedBy(blame map[string]int32) string {
	delete(blame, "")
	var texts []string
	names := make([]string, 0, len(blame))
	for name := range blame {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(blame[b], blame[a]), cmp.Compare(a, b)) })
	for _, name := range names {
		texts = append(texts, fmt.Sprint(name, " ", blame[name]))
	}
	return strings.Join(texts, ", ")
}
