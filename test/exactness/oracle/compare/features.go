package compare

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// feature is something that pods, clusters or arguments may make use of, and
// the plugin whose decisions it is about.
type feature struct {
	plugin, name string
	// in says whether an attempt makes use of it.
	in func(*sight) bool
	// silent features take effect where nothing is refused and no winner
	// changes: that they were there is all that can be seen.
	silent bool
}

// features are what histories must have made use of, often enough.
var features = []feature{
	{"PodTopologySpread", "a hard constraint", (*sight).hard, false},
	{"PodTopologySpread", "a soft constraint", (*sight).soft, false},
	{"PodTopologySpread", "a list of defaults, hard", (*sight).listedHard, false},
	{"PodTopologySpread", "a list of defaults, soft", (*sight).listedSoft, false},
	{"PodTopologySpread", "the system's defaults", (*sight).system, false},
	{"PodTopologySpread", "defaults by a Service", (*sight).ofService, false},
	{"PodTopologySpread", "defaults by a ReplicationController", ownedBy("ReplicationController"), false},
	{"PodTopologySpread", "defaults by a ReplicaSet", ownedBy("ReplicaSet"), false},
	{"PodTopologySpread", "defaults by a StatefulSet", ownedBy("StatefulSet"), false},
	{"PodTopologySpread", "minDomains above what there is", (*sight).fewDomains, false},
	{"PodTopologySpread", "nodeAffinityPolicy Honor leaves nodes out", (*sight).affinityHonored, false},
	{"PodTopologySpread", "nodeAffinityPolicy Ignore does not", (*sight).affinityIgnored, false},
	{"PodTopologySpread", "nodeTaintsPolicy Honor leaves nodes out", (*sight).taintsHonored, false},
	{"PodTopologySpread", "matchLabelKeys", (*sight).sameLabels, false},
	{"PodTopologySpread", "unequal selectors", (*sight).unequal, false},
	{"PodTopologySpread", "a selector without the pod itself", (*sight).outsider, false},
	{"PodTopologySpread", "nodes without the key", (*sight).keyless, false},
	{"PodTopologySpread", "racks", (*sight).spreadByRack, false},
	{"PodTopologySpread", "a terminating pod is left out", (*sight).leaverUncounted, false},
	{"VolumeRestrictions", "a disk that the pod names", (*sight).namesDisk, false},
	{"VolumeRestrictions", "a ReadWriteOncePod claim", (*sight).onePodOnly, false},
	{"NodeVolumeLimits", "a bound claim", (*sight).bound, false},
	{"VolumeBinding", "a bound claim", (*sight).bound, false},
	{"VolumeBinding", "a claim without a volume", (*sight).unbound, false},
	{"VolumeBinding", "a claim made for the pod", (*sight).madeForIt, false},
	{"VolumeZone", "a bound claim", (*sight).bound, false},
	{"InterPodAffinity", "required affinity", (*sight).seeks, false},
	{"InterPodAffinity", "required anti-affinity", (*sight).shuns, false},
	{"InterPodAffinity", "preferred affinity", (*sight).wouldSeek, false},
	{"InterPodAffinity", "preferred anti-affinity", (*sight).wouldShun, false},
	{"InterPodAffinity", "anti-affinity of placed pods", (*sight).shunned, false},
	{"InterPodAffinity", "hardPodAffinityWeight", (*sight).sought, false},
	{"InterPodAffinity", "preferences of placed pods", (*sight).liked, false},
	{"InterPodAffinity", "ignorePreferredTermsOfExistingPods", (*sight).likesIgnored, true},
	{"InterPodAffinity", "namespaces by name", (*sight).namedNamespaces, false},
	{"InterPodAffinity", "namespaces by label", (*sight).labelledNamespaces, false},
	{"InterPodAffinity", "all namespaces", (*sight).allNamespaces, false},
	{"InterPodAffinity", "matchLabelKeys", (*sight).matchKeys, false},
	{"InterPodAffinity", "mismatchLabelKeys", (*sight).mismatchKeys, false},
	{"InterPodAffinity", "the first of a self-affine group", (*sight).first, false},
	{"InterPodAffinity", "a terminating pod is counted", (*sight).leaverCounted, false},
	{"InterPodAffinity", "racks", (*sight).gatherByRack, false},
}

// use is how often a feature was made use of, and in how many of these attempts
// its plugin refused a node or changed the winner.
type use struct{ attempts, decided int }

// addFeatures counts the features of one attempt, in which the given plugins
// decided something.
func (c *Coverage) addFeatures(s *sight, decided map[string]bool) {
	for i := range features {
		if f := &features[i]; f.in(s) {
			c.features[i].attempts++
			if f.silent || decided[f.plugin] {
				c.features[i].decided++
			}
		}
	}
}

// writeFeatures writes a table, a feature a line.
func (c *Coverage) writeFeatures(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "plugin\tfeature\tin attempts\tthat it decided\t")
	for i, f := range features {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t\n", f.plugin, f.name, c.features[i].attempts, c.features[i].decided)
	}
	table.Flush()
}

// Unused names the features of which fewer than least attempts made use in
// which their plugin decided something.
func (c *Coverage) Unused(least int) []string {
	var unused []string
	for i, f := range features {
		if c.features[i].decided < least {
			unused = append(unused, fmt.Sprintf("%s decided something in %d attempts with %s, want %d", f.plugin, c.features[i].decided, f.name, least))
		}
	}
	return unused
}
