package upstreamconfig

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// predicates translates predicates to filters; the default ones where named is nil.
func (t *policyTranslator) predicates(named []predicate) {
	path := field.NewPath("predicates")
	t.predicatePaths = map[string]*field.Path{}
	if named == nil {
		for _, name := range defaultPredicates {
			t.predicatePaths[name] = path
		}
	}
	var presence []corev1.NodeSelectorRequirement
	for i, p := range named {
		at := path.Index(i)
		switch {
		case p.Argument != nil && p.Argument.ServiceAffinity != nil && p.Argument.LabelsPresence != nil:
			t.errors.add(at.Child("argument"), "must be one of serviceAffinity and labelsPresence")
		case p.Argument != nil && p.Argument.ServiceAffinity != nil:
			t.serviceAffinity(at.Child("argument", "serviceAffinity"), p.Argument.ServiceAffinity.Labels)
		case p.Argument != nil && p.Argument.LabelsPresence != nil:
			operator := corev1.NodeSelectorOpDoesNotExist
			if p.Argument.LabelsPresence.Presence {
				operator = corev1.NodeSelectorOpExists
			}
			for _, label := range p.Argument.LabelsPresence.Labels {
				presence = append(presence, corev1.NodeSelectorRequirement{Key: label, Operator: operator})
			}
			t.sourcePaths[nodeAffinity] = at
			t.predicatePaths["CheckNodeLabelPresence"] = at
		case predicatePlugins[p.Name] != nil && p.Name != "CheckServiceAffinity":
			t.predicatePaths[p.Name] = at
		default:
			t.addUnknownName(at.Child("name"), "predicate", p.Name, slices.Sorted(maps.Keys(predicatePlugins)))
		}
	}
	for _, name := range mandatoryPredicates {
		if t.predicatePaths[name] == nil {
			t.predicatePaths[name] = path
		}
	}
	t.labelPresence(presence)
	t.orderFilters()
}

// serviceAffinity adds labels whose values must be equal for all pods of a Service.
func (t *policyTranslator) serviceAffinity(at *field.Path, labels []string) {
	if !t.hasPlugin(serviceAffinity, at) {
		return
	}
	args := t.serviceAffinityArguments()
	args.AffinityLabels = append(args.AffinityLabels, labels...)
	t.predicatePaths["CheckServiceAffinity"] = at
}

// labelPresence adds labels that nodes must or must not have to NodeAffinity, where
// that filters in any case. Enabled only for them, it would also evaluate the node
// affinity of pods, which the file does not ask for.
func (t *policyTranslator) labelPresence(presence []corev1.NodeSelectorRequirement) {
	at := t.predicatePaths["CheckNodeLabelPresence"]
	delete(t.predicatePaths, "CheckNodeLabelPresence")
	if len(presence) == 0 {
		return
	}
	if t.predicatePaths["GeneralPredicates"] == nil && t.predicatePaths["MatchNodeSelector"] == nil {
		t.result.lost(at, "left out: NodeAffinity's addedAffinity does the same, but looks at the pods' own node selectors, too, which the file does not ask for (GeneralPredicates or MatchNodeSelector would)")
		return
	}
	t.result.note(at, "is addedAffinity in NodeAffinity's arguments")
	t.args[nodeAffinity] = &configv1.NodeAffinityArgs{AddedAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: presence}}},
	}}
}

// orderFilters sets the filters in the order of predicateOrder.
func (t *policyTranslator) orderFilters() {
	for _, name := range predicateOrder {
		at := t.predicatePaths[name]
		if at == nil {
			continue
		}
		for _, plugin := range predicatePlugins[name] {
			if slices.Contains(t.filters, plugin) || !t.hasPlugin(plugin, at) {
				continue
			}
			t.filters = append(t.filters, plugin)
		}
		if how := behaviorNotes[name]; how != "" {
			t.result.note(at, "%s: %s", name, how)
		}
	}
}

// priorities translates priorities to scores; the default ones where named is nil.
func (t *policyTranslator) priorities(named []priority) {
	path, defaults := field.NewPath("priorities"), named == nil
	if defaults {
		named = defaultPriorities
	}
	strategy := ""
	var antiAffinityWeight int64
	for i, p := range named {
		at := path
		if !defaults {
			at = path.Index(i)
		}
		if p.Weight < 1 || p.Weight > math.MaxInt32 {
			t.errors.add(at.Child("weight"), "must be from 1 to %d, is %d", math.MaxInt32, p.Weight)
			continue
		}
		a := p.Argument
		switch {
		case a != nil && a.ServiceAntiAffinity != nil:
			if antiAffinityWeight != 0 && antiAffinityWeight != p.Weight {
				t.errors.add(at.Child("weight"), "must be %d, as the other serviceAntiAffinity's: one plugin does the work of all, is %d", antiAffinityWeight, p.Weight)
				continue
			}
			antiAffinityWeight = p.Weight
			if t.hasPlugin(serviceAffinity, at) {
				args := t.serviceAffinityArguments()
				args.AntiAffinityLabelsPreference = append(args.AntiAffinityLabelsPreference, a.ServiceAntiAffinity.Label)
				t.addScore(serviceAffinity, p.Weight)
			}
		case a != nil && a.LabelPreference != nil:
			t.result.lost(at, "left out: no plugin scores by a label alone; NodeAffinity's addedAffinity can prefer nodes with %q, but scores it together with what pods prefer", a.LabelPreference.Label)
		case a != nil && a.RequestedToCapacityRatioArguments != nil:
			t.resourceStrategy(p, "RequestedToCapacityRatio", &strategy, at)
		case p.Name == equalPriority:
			t.result.note(at, "left out: it gave each node the same score")
		case priorityPlugins[p.Name] == nodeResourcesFit:
			t.resourceStrategy(p, map[string]string{
				"LeastRequestedPriority": "LeastAllocated", "MostRequestedPriority": "MostAllocated", "RequestedToCapacityRatioPriority": "RequestedToCapacityRatio",
			}[p.Name], &strategy, at)
		case priorityPlugins[p.Name] != "":
			if t.hasPlugin(priorityPlugins[p.Name], at) {
				t.addScore(priorityPlugins[p.Name], p.Weight)
			}
			if how := behaviorNotes[p.Name]; how != "" {
				t.result.note(at, "%s: %s", p.Name, how)
			}
		default:
			t.addUnknownName(at.Child("name"), "priority", p.Name, slices.Sorted(maps.Keys(priorityPlugins)))
		}
	}
}

// resourceStrategy sets the scoring strategy of NodeResourcesFit, which can only be one.
func (t *policyTranslator) resourceStrategy(p priority, strategy string, before *string, at *field.Path) {
	if *before != "" {
		t.result.lost(at, "left out: NodeResourcesFit scores in one way only, and %s came first", *before)
		return
	}
	*before = p.Name
	if !t.hasPlugin(nodeResourcesFit, at) {
		return
	}
	t.addScore(nodeResourcesFit, p.Weight)
	if strategy == "LeastAllocated" {
		return // it is the default
	}
	scoring := &configv1.ScoringStrategy{Type: configv1.ScoringStrategyType(strategy)}
	if strategy == "RequestedToCapacityRatio" {
		// Without arguments the priority preferred empty nodes.
		scoring.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}}
		if a := p.Argument; a != nil && a.RequestedToCapacityRatioArguments != nil {
			scoring.RequestedToCapacityRatio.Shape = a.RequestedToCapacityRatioArguments.Shape
			scoring.Resources = a.RequestedToCapacityRatioArguments.Resources
		}
	}
	t.args[nodeResourcesFit] = &configv1.NodeResourcesFitArgs{ScoringStrategy: scoring}
	t.sourcePaths[nodeResourcesFit] = at
}

// addScore adds a plugin, or adds to the weight of one that is there already.
func (t *policyTranslator) addScore(plugin string, weight int64) {
	if !slices.Contains(t.scores, plugin) {
		t.scores = append(t.scores, plugin)
	}
	t.weights[plugin] = min(t.weights[plugin]+weight, math.MaxInt32)
}

// serviceAffinityArgs are the arguments of the plugin ServiceAffinity.
type serviceAffinityArgs struct {
	AffinityLabels               []string `json:"affinityLabels,omitempty"`
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// serviceAffinityArguments returns the arguments of ServiceAffinity, which it creates
// if they are missing.
func (t *policyTranslator) serviceAffinityArguments() *serviceAffinityArgs {
	if t.args[serviceAffinity] == nil {
		t.args[serviceAffinity] = &serviceAffinityArgs{}
	}
	return t.args[serviceAffinity].(*serviceAffinityArgs)
}
