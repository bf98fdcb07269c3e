package upstreamconfig

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// predicates become filters; without any named, those of kube-scheduler.
func (t *translator) predicates(named []predicate) {
	path := field.NewPath("predicates")
	t.asked = map[string]*field.Path{}
	if named == nil {
		for _, name := range usualPredicates {
			t.asked[name] = path
		}
	}
	var presence []corev1.NodeSelectorRequirement
	for i, p := range named {
		at := path.Index(i)
		switch {
		case p.Argument != nil && p.Argument.ServiceAffinity != nil && p.Argument.LabelsPresence != nil:
			t.faults.add(at.Child("argument"), "must be one of serviceAffinity and labelsPresence")
		case p.Argument != nil && p.Argument.ServiceAffinity != nil:
			t.affinity(at.Child("argument", "serviceAffinity"), p.Argument.ServiceAffinity.Labels)
		case p.Argument != nil && p.Argument.LabelsPresence != nil:
			operator := corev1.NodeSelectorOpDoesNotExist
			if p.Argument.LabelsPresence.Presence {
				operator = corev1.NodeSelectorOpExists
			}
			for _, label := range p.Argument.LabelsPresence.Labels {
				presence = append(presence, corev1.NodeSelectorRequirement{Key: label, Operator: operator})
			}
			t.from[nodeAffinity] = at
			t.asked["CheckNodeLabelPresence"] = at
		case filters[p.Name] != nil && p.Name != "CheckServiceAffinity":
			t.asked[p.Name] = at
		default:
			t.unknown(at.Child("name"), "predicate", p.Name, slices.Sorted(maps.Keys(filters)))
		}
	}
	for _, name := range mandatory {
		if t.asked[name] == nil {
			t.asked[name] = path
		}
	}
	t.labels(presence)
	t.order()
}

// affinity adds labels that the pods of a Service have in common.
func (t *translator) affinity(at *field.Path, labels []string) {
	if !t.has(serviceAffinity, at) {
		return
	}
	args := t.service()
	args.AffinityLabels = append(args.AffinityLabels, labels...)
	t.asked["CheckServiceAffinity"] = at
}

// labels adds what nodes must and must not have to NodeAffinity, where it filters
// anyway: alone it would look at the pods' own wishes, too, which the file did
// not ask for.
func (t *translator) labels(presence []corev1.NodeSelectorRequirement) {
	at := t.asked["CheckNodeLabelPresence"]
	delete(t.asked, "CheckNodeLabelPresence")
	if len(presence) == 0 {
		return
	}
	if t.asked["GeneralPredicates"] == nil && t.asked["MatchNodeSelector"] == nil {
		t.reading.lost(at, "left out: NodeAffinity's addedAffinity does the same, but looks at the pods' own node selectors, too, which the file does not ask for (GeneralPredicates or MatchNodeSelector would)")
		return
	}
	t.reading.note(at, "is addedAffinity in NodeAffinity's arguments")
	t.args[nodeAffinity] = &configv1.NodeAffinityArgs{AddedAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: presence}}},
	}}
}

// order puts the plugins of what is asked where kube-scheduler had it.
func (t *translator) order() {
	for _, name := range ordered {
		at := t.asked[name]
		if at == nil {
			continue
		}
		for _, plugin := range filters[name] {
			if slices.Contains(t.filters, plugin) || !t.has(plugin, at) {
				continue
			}
			t.filters = append(t.filters, plugin)
		}
		if how := otherwise[name]; how != "" {
			t.reading.note(at, "%s: %s", name, how)
		}
	}
}

// priorities become scores; without any named, those of kube-scheduler.
func (t *translator) priorities(named []priority) {
	path, usual := field.NewPath("priorities"), named == nil
	if usual {
		named = usualPriorities
	}
	strategy := ""
	var anti int64
	for i, p := range named {
		at := path
		if !usual {
			at = path.Index(i)
		}
		if p.Weight < 1 || p.Weight > math.MaxInt32 {
			t.faults.add(at.Child("weight"), "must be from 1 to %d, is %d", math.MaxInt32, p.Weight)
			continue
		}
		a := p.Argument
		switch {
		case a != nil && a.ServiceAntiAffinity != nil:
			if anti != 0 && anti != p.Weight {
				t.faults.add(at.Child("weight"), "must be %d, as the other serviceAntiAffinity's: one plugin does the work of all, is %d", anti, p.Weight)
				continue
			}
			anti = p.Weight
			if t.has(serviceAffinity, at) {
				args := t.service()
				args.AntiAffinityLabelsPreference = append(args.AntiAffinityLabelsPreference, a.ServiceAntiAffinity.Label)
				t.score(serviceAffinity, p.Weight)
			}
		case a != nil && a.LabelPreference != nil:
			t.reading.lost(at, "left out: no plugin scores by a label alone; NodeAffinity's addedAffinity can prefer nodes with %q, but scores it together with what pods prefer", a.LabelPreference.Label)
		case a != nil && a.RequestedToCapacityRatioArguments != nil:
			t.resources(p, "RequestedToCapacityRatio", &strategy, at)
		case p.Name == constant:
			t.reading.note(at, "left out: it gave each node the same")
		case scorers[p.Name] == nodeResourcesFit:
			t.resources(p, map[string]string{
				"LeastRequestedPriority": "LeastAllocated", "MostRequestedPriority": "MostAllocated", "RequestedToCapacityRatioPriority": "RequestedToCapacityRatio",
			}[p.Name], &strategy, at)
		case scorers[p.Name] != "":
			if t.has(scorers[p.Name], at) {
				t.score(scorers[p.Name], p.Weight)
			}
			if how := otherwise[p.Name]; how != "" {
				t.reading.note(at, "%s: %s", p.Name, how)
			}
		default:
			t.unknown(at.Child("name"), "priority", p.Name, slices.Sorted(maps.Keys(scorers)))
		}
	}
}

// resources scores by how full a node is; one way at most.
func (t *translator) resources(p priority, strategy string, before *string, at *field.Path) {
	if *before != "" {
		t.reading.lost(at, "left out: NodeResourcesFit scores in one way only, and %s came first", *before)
		return
	}
	*before = p.Name
	if !t.has(nodeResourcesFit, at) {
		return
	}
	t.score(nodeResourcesFit, p.Weight)
	if strategy == "LeastAllocated" {
		return // which is the default
	}
	scoring := &configv1.ScoringStrategy{Type: configv1.ScoringStrategyType(strategy)}
	if strategy == "RequestedToCapacityRatio" {
		// Without arguments empty nodes were the best.
		scoring.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}}
		if a := p.Argument; a != nil && a.RequestedToCapacityRatioArguments != nil {
			scoring.RequestedToCapacityRatio.Shape = a.RequestedToCapacityRatioArguments.Shape
			scoring.Resources = a.RequestedToCapacityRatioArguments.Resources
		}
	}
	t.args[nodeResourcesFit] = &configv1.NodeResourcesFitArgs{ScoringStrategy: scoring}
	t.from[nodeResourcesFit] = at
}

// score adds a plugin, or weight to one that scores already.
func (t *translator) score(plugin string, weight int64) {
	if !slices.Contains(t.scores, plugin) {
		t.scores = append(t.scores, plugin)
	}
	t.weights[plugin] = min(t.weights[plugin]+weight, math.MaxInt32)
}

// serviceArguments are those of the plugin ServiceAffinity.
type serviceArguments struct {
	AffinityLabels               []string `json:"affinityLabels,omitempty"`
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// service returns the arguments of ServiceAffinity, made if need be.
func (t *translator) service() *serviceArguments {
	if t.args[serviceAffinity] == nil {
		t.args[serviceAffinity] = &serviceArguments{}
	}
	return t.args[serviceAffinity].(*serviceArguments)
}
