package volumezone

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// placeLabels say where something is. The first two are what the other two were
// called before, and mean the same.
var topologyLabels = []string{
	v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone, v1.LabelTopologyRegion,
}

var betaToGALabel = map[string]string{
	v1.LabelFailureDomainBetaZone:   v1.LabelTopologyZone,
	v1.LabelFailureDomainBetaRegion: v1.LabelTopologyRegion,
}

// zoneDelimiter stands between the zones of a volume that is in several.
const zoneDelimiter = "__"

// place is one label of a volume, and the values that a node may have there.
type pvTopology struct {
	key    string
	values sets.Set[string]
}

// places are those of all volumes of a pod.
type pvTopologies []pvTopology

// Clone returns the same value: nothing changes it.
func (p pvTopologies) Clone() fwk.StateData { return p }

// placesOfVolume reads a volume's labels. One with an empty value among several
// counts for nothing, as upstream has it.
func topologiesOfVolume(volume *v1.PersistentVolume) (all pvTopologies) {
	for _, label := range topologyLabels {
		text, there := volume.Labels[label]
		if !there {
			continue
		}
		values := sets.New[string]()
		for value := range strings.SplitSeq(text, zoneDelimiter) {
			values.Insert(strings.TrimSpace(value))
		}
		if !values.Has("") {
			all = append(all, pvTopology{label, values})
		}
	}
	return all
}

// hold says whether a node is in all of the places. One that says of itself
// nothing is everywhere: clusters of one zone need no labels.
func (p pvTopologies) matches(node *v1.Node) bool {
	if !slices.ContainsFunc(topologyLabels, func(label string) bool { _, says := node.Labels[label]; return says }) {
		return true
	}
	for _, place := range p {
		value, says := node.Labels[place.key]
		if !says {
			value, says = node.Labels[betaToGALabel[place.key]]
		}
		if !says || !place.values.Has(value) {
			return false
		}
	}
	return true
}

// same says whether two lists say the same.
func equalTopologies(a, b pvTopologies) bool {
	return slices.EqualFunc(a, b, func(x, y pvTopology) bool { return x.key == y.key && x.values.Equal(y.values) })
}
