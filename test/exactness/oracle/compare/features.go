package compare

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// feature is a property of pods, clusters or arguments that a plugin's decisions depend on.
type feature struct {
	plugin, name string
	// in says whether an attempt has it.
	in func(*situation) bool
	// silent features need not refuse a node or change the chosen one: that they are present
	// is all that can be seen.
	silent bool
}

// features are what histories must have, often enough.
var features = []feature{
	{"PodTopologySpread", "a hard constraint", (*situation).hard, false},
	{"PodTopologySpread", "a soft constraint", (*situation).soft, false},
	{"PodTopologySpread", "a list of defaults, hard", (*situation).usesHardDefault, false},
	{"PodTopologySpread", "a list of defaults, soft", (*situation).usesSoftDefault, false},
	{"PodTopologySpread", "the system's defaults", (*situation).usesSystemDefaults, false},
	{"PodTopologySpread", "defaults by a Service", (*situation).usesServiceDefaults, false},
	{"PodTopologySpread", "defaults by a ReplicationController", ownedBy("ReplicationController"), false},
	{"PodTopologySpread", "defaults by a ReplicaSet", ownedBy("ReplicaSet"), false},
	{"PodTopologySpread", "defaults by a StatefulSet", ownedBy("StatefulSet"), false},
	{"PodTopologySpread", "minDomains above what there is", (*situation).belowMinDomains, false},
	{"PodTopologySpread", "nodeAffinityPolicy Honor leaves nodes out", (*situation).affinityHonored, false},
	{"PodTopologySpread", "nodeAffinityPolicy Ignore leaves none out", (*situation).affinityIgnored, false},
	{"PodTopologySpread", "nodeTaintsPolicy Honor leaves nodes out", (*situation).taintsHonored, false},
	{"PodTopologySpread", "matchLabelKeys", (*situation).usesMatchLabelKeys, false},
	{"PodTopologySpread", "unequal selectors", (*situation).hasUnequalSelectors, false},
	{"PodTopologySpread", "a selector without the pod itself", (*situation).selectsOthersOnly, false},
	{"PodTopologySpread", "nodes without the key", (*situation).someNodeLacksKey, false},
	{"PodTopologySpread", "racks", (*situation).spreadByRack, false},
	{"PodTopologySpread", "a terminating pod is left out", (*situation).terminatingLeftOut, false},
	{"VolumeRestrictions", "a disk that the pod names", (*situation).hasDisk, false},
	{"VolumeRestrictions", "a ReadWriteOncePod claim", (*situation).hasReadWriteOncePod, false},
	{"NodeVolumeLimits", "a bound claim", (*situation).hasBoundClaim, false},
	{"VolumeBinding", "a bound claim", (*situation).hasBoundClaim, false},
	{"VolumeBinding", "a claim without a volume", (*situation).hasUnboundClaim, false},
	{"VolumeBinding", "a claim made for the pod", (*situation).hasEphemeral, false},
	{"VolumeZone", "a bound claim", (*situation).hasBoundClaim, false},
	{"InterPodAffinity", "required affinity", (*situation).hasAffinity, false},
	{"InterPodAffinity", "required anti-affinity", (*situation).hasAntiAffinity, false},
	{"InterPodAffinity", "preferred affinity", (*situation).prefersAffinity, false},
	{"InterPodAffinity", "preferred anti-affinity", (*situation).prefersAntiAffinity, false},
	{"InterPodAffinity", "anti-affinity of placed pods", (*situation).excludedByOthers, false},
	{"InterPodAffinity", "hardPodAffinityWeight", (*situation).requiredByOthers, false},
	{"InterPodAffinity", "preferences of placed pods", (*situation).preferencesCounted, false},
	{"InterPodAffinity", "ignorePreferredTermsOfExistingPods", (*situation).preferencesIgnored, true},
	{"InterPodAffinity", "namespaces by name", (*situation).namedNamespaces, false},
	{"InterPodAffinity", "namespaces by label", (*situation).namespaceSelector, false},
	{"InterPodAffinity", "all namespaces", (*situation).allNamespaces, false},
	{"InterPodAffinity", "matchLabelKeys", (*situation).matchKeys, false},
	{"InterPodAffinity", "mismatchLabelKeys", (*situation).mismatchKeys, false},
	{"InterPodAffinity", "the first of a self-affine group", (*situation).firstOfGroup, false},
	{"InterPodAffinity", "a terminating pod is counted", (*situation).terminatingCounted, false},
	{"InterPodAffinity", "racks", (*situation).affinityByRack, false},
}

// use counts the attempts that have a feature, and those of them in which its plugin refused a
// node or changed the chosen one.
type use struct{ attempts, decided int }

// addFeatures counts the features of one attempt, in which the given plugins decided
// something.
func (c *Coverage) addFeatures(s *situation, decided map[string]bool) {
	for i := range features {
		if f := &features[i]; f.in(s) {
			c.features[i].attempts++
			if f.silent || decided[f.plugin] {
				c.features[i].decided++
			}
		}
	}
}

// writeFeatures writes a table with one feature a line.
func (c *Coverage) writeFeatures(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "plugin\tfeature\tin attempts\tthat it decided\t")
	for i, f := range features {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t\n", f.plugin, f.name, c.features[i].attempts, c.features[i].decided)
	}
	table.Flush()
}

// MissingFeatures names the features by which their plugin decided something in less than
// least attempts.
func (c *Coverage) MissingFeatures(least int) []string {
	var missing []string
	for i, f := range features {
		if c.features[i].decided < least {
			missing = append(missing, fmt.Sprintf("%s decided something in %d attempts with %s, want %d", f.plugin, c.features[i].decided, f.name, least))
		}
	}
	return missing
}
