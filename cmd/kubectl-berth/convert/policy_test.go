package convert

import (
	"testing"

	"github.com/berthdev/berth/test/plugin"
)

// The Policies are like those in the documentation of Kubernetes 1.15.
func TestFromAPolicy(t *testing.T) {
	for name, in := range map[string]string{
		"policy: an empty one": `{"kind":"Policy","apiVersion":"v1"}`,
		"policy: an example of the documentation": `{"kind":"Policy","apiVersion":"v1",
"predicates":[{"name":"PodFitsHostPorts"},{"name":"PodFitsResources"},{"name":"NoDiskConflict"},{"name":"NoVolumeZoneConflict"},{"name":"MatchNodeSelector"},{"name":"HostName"}],
"priorities":[{"name":"LeastRequestedPriority","weight":1},{"name":"BalancedResourceAllocation","weight":1},{"name":"ServiceSpreadingPriority","weight":1},{"name":"EqualPriority","weight":1}],
"hardPodAffinitySymmetricWeight":10,"alwaysCheckAllPredicates":false}`,
		"policy: arguments": `{"kind":"Policy","apiVersion":"v1",
"predicates":[{"name":"GeneralPredicates"},{"name":"Zones","argument":{"serviceAffinity":{"labels":["zone"]}}},
 {"name":"Retiring","argument":{"labelsPresence":{"labels":["retiring"],"presence":false}}},{"name":"MatchInterPodAffinity"},{"name":"EvenPodsSpread"},{"name":"MaxEBSVolumeCount"},{"name":"CheckNodeMemoryPressure"}],
"priorities":[{"name":"Racks","weight":3,"argument":{"serviceAntiAffinity":{"label":"rack"}}},{"name":"Rows","weight":3,"argument":{"serviceAntiAffinity":{"label":"row"}}},
 {"name":"Fast","weight":2,"argument":{"labelPreference":{"label":"ssd","presence":true}}},
 {"name":"Ratio","weight":4,"argument":{"requestedToCapacityRatioArguments":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}],"resources":[{"name":"cpu","weight":3}]}}},
 {"name":"MostRequestedPriority","weight":1},{"name":"NodePreferAvoidPodsPriority","weight":10000},{"name":"InterPodAffinityPriority","weight":2}],
"extenders":[{"urlPrefix":"http://127.0.0.1:12345/","filterVerb":"filter","enableHttps":false,"httpTimeout":1000000000}],
"hardPodAffinitySymmetricWeight":10,"alwaysCheckAllPredicates":true}`,
		"policy: labels without a node selector": `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"Region","argument":{"labelsPresence":{"labels":["region"],"presence":true}}}],"priorities":[]}`,
		"policy: errors": `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"PodFitResources"}],
"priorities":[{"name":"LeastRequested","weight":1},{"name":"ImageLocalityPriority","weight":0},
 {"name":"a","weight":1,"argument":{"serviceAntiAffinity":{"label":"rack"}}},{"name":"b","weight":2,"argument":{"serviceAntiAffinity":{"label":"row"}}}],
"hardPodAffinitySymmetricWeight":101}`,
		"policy: a shape that falls back": `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"GeneralPredicates"}],
"priorities":[{"name":"Ratio","weight":1,"argument":{"requestedToCapacityRatioArguments":{"shape":[{"utilization":50,"score":0},{"utilization":0,"score":10}]}}}]}`,
		"policy: an unknown field": `{"kind":"Policy","apiVersion":"v1","predicate":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := plugin.New(t)
			s.In = in
			printed := s.Run(newTestCommand, "-f", "-", "--scheduler-name", "old")
			plugin.Golden(t, name, printed, true)
			checkWithLint(t, printed)
		})
	}
}
