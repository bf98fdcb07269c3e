package volumezone

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// topologyLabels are the labels for zones and regions. The first two are the beta names
// of the other two.
var topologyLabels = []string{
	v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion,
}

// betaToGALabel maps the beta names of labels to those in use.
var betaToGALabel = map[string]string{
	v1.LabelFailureDomainBetaZone:   v1.LabelTopologyZone,
	v1.LabelFailureDomainBetaRegion: v1.LabelTopologyRegion,
}

// zoneDelimiter separates the zones of a volume that is in several.
const zoneDelimiter = "__"

// pvTopology is a topology label of a volume and the values that a node may have for
// it.
type pvTopology struct {
	key    string
	values sets.Set[string]
}

// pvTopologies are the topologies of all volumes of a pod.
type pvTopologies []pvTopology

// Clone returns the value itself, which never changes.
func (p pvTopologies) Clone() fwk.StateData { return p }

// topologiesOfVolume reads the topology labels of a volume. As upstream, it ignores a
// label that has an empty value among several.
func topologiesOfVolume(volume *v1.PersistentVolume) (topologies pvTopologies) {
	for _, label := range topologyLabels {
		text, ok := volume.Labels[label]
		if !ok {
			continue
		}
		values := sets.New[string]()
		for value := range strings.SplitSeq(text, zoneDelimiter) {
			values.Insert(strings.TrimSpace(value))
		}
		if !values.Has("") {
			topologies = append(topologies, pvTopology{label, values})
		}
	}
	return topologies
}

// matches reports whether a node is in all of the topologies. A node without any
// topology label matches: clusters with a single zone need no labels.
func (p pvTopologies) matches(node *v1.Node) bool {
	if !slices.ContainsFunc(topologyLabels, func(label string) bool { _, ok := node.Labels[label]; return ok }) {
		return true
	}
	for _, topology := range p {
		value, ok := node.Labels[topology.key]
		if !ok {
			value, ok = node.Labels[betaToGALabel[topology.key]]
		}
		if !ok || !topology.values.Has(value) {
			return false
		}
	}
	return true
}

// equalTopologies reports whether two lists are equal.
func equalTopologies(a, b pvTopologies) bool {
	return slices.EqualFunc(a, b, func(x, y pvTopology) bool { return x.key == y.key && x.values.Equal(y.values) })
}
