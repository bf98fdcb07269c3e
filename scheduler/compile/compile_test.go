package compile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
)

// config returns a PluginConfig with the given spec in YAML.
func config(t *testing.T, name, spec string) *v1alpha1.PluginConfig {
	t.Helper()
	c := &v1alpha1.PluginConfig{}
	c.Name, c.Generation, c.UID = name, 4, types.UID(name+"-1")
	if err := yaml.UnmarshalStrict([]byte(spec), &c.Spec); err != nil {
		t.Fatalf("the test's own PluginConfig: %v", err)
	}
	return c
}

func configs(list ...*v1alpha1.PluginConfig) map[string]*v1alpha1.PluginConfig {
	byName := map[string]*v1alpha1.PluginConfig{}
	for _, c := range list {
		byName[c.Name] = c
	}
	return byName
}

func TestArgumentsComeFromOnePlaceEach(t *testing.T) {
	in := Input{
		Profile: profile(t, `pluginConfig:
- {name: NodeResourcesFit, configRef: {name: binpack}}
- {name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs, hardPodAffinityWeight: 10}}`),
		Configs:  configs(config(t, "binpack", `{plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}`)),
		Registry: testRegistry(),
	}
	got, rejection := Profile(in)
	if rejection != nil {
		t.Fatalf("rejected: %s", rejection.Message())
	}
	weight := int32(10)
	want := map[string]any{
		"NodeResourcesFit": &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
			Type: configv1.MostAllocated, Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
		}},
		"InterPodAffinity": &configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight},
	}
	gotArgs := map[string]any{}
	for name, object := range got.Args {
		gotArgs[name] = object
	}
	if diff := cmp.Diff(want, gotArgs); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"NodeResourcesFit": "PluginConfig/binpack", "InterPodAffinity": "Inline"}, got.ArgsFrom); diff != "" {
		t.Errorf("sources of arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]ConfigGeneration{{Name: "binpack", Generation: 4, UID: "binpack-1"}}, got.Configs); diff != "" {
		t.Errorf("PluginConfigs (-want +got):\n%s", diff)
	}
}

func TestDefaultsFillWhatAnEmptySpecLeavesOut(t *testing.T) {
	got, rejection := Profile(Input{Profile: profile(t, `{}`), Registry: testRegistry()})
	if rejection != nil {
		t.Fatalf("rejected: %s", rejection.Message())
	}
	if got.Name != "batch" || got.Generation != 7 || got.PercentageOfNodesToScore != 0 {
		t.Errorf("got %s, generation %d, %d %%", got.Name, got.Generation, got.PercentageOfNodesToScore)
	}
	if diff := cmp.Diff(QueueSettings{InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, FlushAfter: 5 * time.Minute}, got.Queue); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(DecisionSettings{Annotate: true, TopScores: 3, History: 10, Publish: 5 * time.Second, Explain: v1alpha1.ExplainRefusals}, got.Decisions); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"NodeResourcesFit": "Default", "InterPodAffinity": "Default"}, got.ArgsFrom); diff != "" {
		t.Errorf("sources of arguments (-want +got):\n%s", diff)
	}
}
