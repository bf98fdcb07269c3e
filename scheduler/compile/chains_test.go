package compile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// profile returns a profile with the given spec in YAML.
func profile(t *testing.T, spec string) *v1alpha1.SchedulingProfile {
	t.Helper()
	p := &v1alpha1.SchedulingProfile{}
	p.Name, p.Generation = "batch", 7
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("the test's own spec: %v", err)
	}
	return p
}

func TestMergeRules(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want map[framework.Point]string
	}{
		"an empty spec is kube-scheduler's default profile": {
			spec: `{}`,
			want: map[framework.Point]string{
				framework.PreEnqueue: "SchedulingGates",
				framework.QueueSort:  "PrioritySort",
				framework.PreFilter:  "NodeName TaintToleration NodeResourcesFit InterPodAffinity",
				framework.Filter:     "NodeName TaintToleration NodeResourcesFit InterPodAffinity",
				framework.PostFilter: "",
				framework.Score:      "TaintToleration*3 NodeResourcesFit*1 InterPodAffinity*2 ImageLocality*1",
				framework.Bind:       "DefaultBinder",
			},
		},
		"a default enabled at its point comes first there, with the weight given": {
			spec: `plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 5}]}}`,
			want: map[framework.Point]string{
				framework.Score:  "NodeResourcesFit*5 TaintToleration*3 InterPodAffinity*2 ImageLocality*1",
				framework.Filter: "NodeName TaintToleration NodeResourcesFit InterPodAffinity",
			},
		},
		"a missing weight is 1, even where the default is 3": {
			spec: `plugins: {score: {enabled: [{name: TaintToleration}]}}`,
			want: map[framework.Point]string{framework.Score: "TaintToleration*1 NodeResourcesFit*1 InterPodAffinity*2 ImageLocality*1"},
		},
		"a default replaced in multiPoint keeps its place and takes the weight given": {
			spec: `plugins: {multiPoint: {enabled: [{name: InterPodAffinity, weight: 9}, {name: TaintToleration}]}}`,
			want: map[framework.Point]string{framework.Score: "TaintToleration*1 NodeResourcesFit*1 InterPodAffinity*9 ImageLocality*1"},
		},
		"a default disabled and enabled in multiPoint moves to the end": {
			spec: `plugins: {multiPoint: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}`,
			want: map[framework.Point]string{framework.Filter: "TaintToleration NodeResourcesFit InterPodAffinity NodeName"},
		},
		"a default disabled and enabled at its point moves to the end there": {
			spec: `plugins: {filter: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}`,
			want: map[framework.Point]string{
				framework.Filter:    "TaintToleration NodeResourcesFit InterPodAffinity NodeName",
				framework.PreFilter: "NodeName TaintToleration NodeResourcesFit InterPodAffinity",
			},
		},
		"a plugin enabled in multiPoint runs at every point that it implements": {
			spec: `plugins: {multiPoint: {enabled: [{name: Everywhere, weight: 4}]}}`,
			want: map[framework.Point]string{
				framework.QueueSort:  "PrioritySort",
				framework.PostFilter: "Everywhere",
				framework.Score:      "TaintToleration*3 NodeResourcesFit*1 InterPodAffinity*2 ImageLocality*1 Everywhere*4",
				framework.PreBind:    "Everywhere",
				framework.Bind:       "DefaultBinder",
			},
		},
		"a plugin enabled in multiPoint can be disabled at one point": {
			spec: `plugins: {multiPoint: {enabled: [{name: Everywhere}]}, filter: {disabled: [{name: Everywhere}]}}`,
			want: map[framework.Point]string{
				framework.Filter:    "NodeName TaintToleration NodeResourcesFit InterPodAffinity",
				framework.PreFilter: "NodeName TaintToleration NodeResourcesFit InterPodAffinity Everywhere",
			},
		},
		"plugins that a point shares with multiPoint come first in the point's order, those that it adds come last": {
			spec: `plugins: {score: {enabled: [{name: Everywhere}, {name: ImageLocality, weight: 2}, {name: TaintToleration, weight: 7}]}}`,
			want: map[framework.Point]string{framework.Score: "ImageLocality*2 TaintToleration*7 NodeResourcesFit*1 InterPodAffinity*2 Everywhere*1"},
		},
		`"*" disabled at a point leaves only the plugins that the point enables`: {
			spec: `plugins: {score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality}]}}`,
			want: map[framework.Point]string{
				framework.Score:    "ImageLocality*1",
				framework.PreScore: "TaintToleration NodeResourcesFit InterPodAffinity",
			},
		},
		`"*" disabled in multiPoint leaves only the plugins that the profile enables`: {
			spec: `plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: DefaultBinder}, {name: NodeName}]}, queueSort: {enabled: [{name: ArrivalSort}]}}`,
			want: map[framework.Point]string{
				framework.QueueSort: "ArrivalSort", framework.Filter: "NodeName", framework.Score: "", framework.Bind: "DefaultBinder",
			},
		},
		`base None is "*" disabled in multiPoint`: {
			spec: `{base: None, plugins: {multiPoint: {enabled: [{name: DefaultBinder}, {name: NodeName}]}, queueSort: {enabled: [{name: ArrivalSort}]}}}`,
			want: map[framework.Point]string{
				framework.QueueSort: "ArrivalSort", framework.Filter: "NodeName", framework.Score: "", framework.Bind: "DefaultBinder",
			},
		},
		"another queue sort takes the default's place when that is disabled": {
			spec: `plugins: {queueSort: {disabled: [{name: PrioritySort}], enabled: [{name: ArrivalSort}]}}`,
			want: map[framework.Point]string{framework.QueueSort: "ArrivalSort"},
		},
		"disabling a plugin that this build lacks, or that does not implement the point, is valid": {
			spec: `plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}, bind: {disabled: [{name: NodeName}]}}`,
			want: map[framework.Point]string{framework.Bind: "DefaultBinder"},
		},
		"a profile that schedules groups preempts for them with the plugins of multiPoint": {
			spec: `plugins: {multiPoint: {enabled: [{name: GangScheduling}, {name: GroupPreemption}]}}`,
			want: map[framework.Point]string{
				framework.Permit: "GangScheduling", framework.PlacementFeasible: "GangScheduling", framework.PodGroupPostFilter: "GroupPreemption",
			},
		},
		"a plugin of multiPoint that every point disables still schedules groups": {
			spec: `plugins: {multiPoint: {enabled: [{name: GangScheduling}]}, permit: {disabled: [{name: "*"}]}}`,
			want: map[framework.Point]string{framework.Permit: "", framework.PlacementFeasible: "GangScheduling", framework.PodGroupPostFilter: ""},
		},
		"a plugin that one point enables schedules groups, too": {
			spec: `plugins: {permit: {enabled: [{name: GangScheduling}]}}`,
			want: map[framework.Point]string{framework.Permit: "GangScheduling", framework.PlacementFeasible: "GangScheduling"},
		},
		"a plugin that only its point enables does not preempt for groups": {
			spec: `plugins: {multiPoint: {enabled: [{name: GangScheduling}]}, postFilter: {enabled: [{name: GroupPreemption}]}}`,
			want: map[framework.Point]string{framework.PostFilter: "GroupPreemption", framework.PlacementFeasible: "GangScheduling", framework.PodGroupPostFilter: ""},
		},
		"a profile that schedules no groups has no chains for them": {
			spec: `plugins: {multiPoint: {enabled: [{name: GroupPreemption}]}}`,
			want: map[framework.Point]string{framework.PostFilter: "GroupPreemption", framework.PlacementFeasible: "", framework.PodGroupPostFilter: ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			blueprint, rejection := Profile(Input{Profile: profile(t, test.spec), Registry: testRegistry()})
			if rejection != nil {
				t.Fatalf("rejected: %s", rejection.Message())
			}
			for point, want := range test.want {
				if want != "" {
					want = string(point) + ": " + want + "\n"
				}
				if got := chainsText(framework.Chains{point: blueprint.Chains[point]}); got != want {
					t.Errorf("got  %swant %s", got, want)
				}
			}
		})
	}
}

func TestDefaultProfileWithEveryPluginIsUpstreams(t *testing.T) {
	reg := framework.Registry{}
	for _, e := range defaultPlugins {
		reg[e.Name] = framework.Registration{Name: e.Name, Points: framework.Points}
	}
	// Here every plugin implements every point, which is no valid profile, so only
	// the filter chain is resolved.
	var got []string
	for _, e := range expand(framework.Filter, mergeDefaults(v1alpha1.BaseDefault, v1alpha1.PluginSet{}, reg), v1alpha1.PluginSet{}, reg) {
		got = append(got, e.Name)
	}
	want := strings.Fields(`SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts
		NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity
		DynamicResources DefaultPreemption NodeResourcesBalancedAllocation ImageLocality DefaultBinder NodeDeclaredFeatures`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the order of the default plugins (-want +got):\n%s", diff)
	}
}

func TestScoreOverflow(t *testing.T) {
	scores := []framework.Entry{{Name: "A", Weight: 2}, {Name: "B", Weight: 3}}
	for name, test := range map[string]struct {
		limit int64
		want  bool
	}{
		"a sum at the limit is valid":              {limit: 500, want: false},
		"a sum one above the limit overflows":      {limit: 499, want: true},
		"one weight alone can overflow":            {limit: 199, want: true},
		"two weights are far below the real limit": {limit: 1<<63 - 1, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := scoreOverflows(scores, test.limit); got != test.want {
				t.Errorf("overflows: %v, want %v", got, test.want)
			}
		})
	}
}
