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

// affinity adds labels that the pods of a Service have in common.
func (t *policyTranslator) serviceAffinity(at *field.Path, labels []string) {
	if !t.hasPlugin(serviceAffinity, at) {
		return
	}
	args := t.serviceAffinityArguments()
	args.AffinityLabels = append(args.AffinityLabels, labels...)
	t.predicatePaths["CheckServiceAffinity"] = at
}

// labels adds what nodes must and must not have to NodeAffinity, where it filters
// anyway: alone it would look at the pods' own wishes, too, which the file did
// not ask for.
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

// order puts the plugins of what is asked where kube-scheduler had it.
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

// priorities become scores; without any named, those of kube-scheduler.
func (t *policyTranslator) priorities(named []priority) {
	path, usual := field.NewPath("priorities"), named == nil
	if usual {
		named = defaultPriorities
	}
	strategy := ""
	var anti int64
	for i, p := range named {
		at := path
		if !usual {
			at = path.Index(i)
		}
		if p.Weight < 1 || p.Weight > math.MaxInt32 {
			t.errors.add(at.Child("weight"), "must be from 1 to %d, is %d", math.MaxInt32, p.Weight)
			continue
		}
		a := p.Argument
		switch {
		case a != nil && a.ServiceAntiAffinity != nil:
			if anti != 0 && anti != p.Weight {
				t.errors.add(at.Child("weight"), "must be %d, as the other serviceAntiAffinity's: one plugin does the work of all, is %d", anti, p.Weight)
				continue
			}
			anti = p.Weight
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
			t.result.note(at, "left out: it gave each node the same")
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

// resources scores by how full a node is; one way at most.
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
	t.sourcePaths[nodeResourcesFit] = at
}

// score adds a plugin, or weight to one that scores already.
func (t *policyTranslator) addScore(plugin string, weight int64) {
	if !slices.Contains(t.scores, plugin) {
		t.scores = append(t.scores, plugin)
	}
	t.weights[plugin] = min(t.weights[plugin]+weight, math.MaxInt32)
}

// serviceArguments are those of the plugin ServiceAffinity.
type serviceAffinityArgs struct {
	AffinityLabels               []string `json:"affinityLabels,omitempty"`
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// service returns the arguments of ServiceAffinity, made if need be.
func (t *policyTranslator) serviceAffinityArguments() *serviceAffinityArgs {
	if t.args[serviceAffinity] == nil {
		t.args[serviceAffinity] = &serviceAffinityArgs{}
	}
	return t.args[serviceAffinity].(*serviceAffinityArgs)
}
