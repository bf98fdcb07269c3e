package compile

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
)

func selfContained(t *testing.T, p *v1alpha1.SchedulingProfile, configs ...*v1alpha1.PluginConfig) (map[string]any, *v1alpha1.SchedulingProfile) {
	t.Helper()
	byName := map[string]*v1alpha1.PluginConfig{}
	for _, c := range configs {
		byName[c.Name] = c
	}
	text, err := SelfContained(p, byName)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	back := &v1alpha1.SchedulingProfile{}
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, back); err != nil {
		t.Fatal(err)
	}
	return plain, back
}

// kubectl apply only removes what the last apply had set, so that it would not undo a
// change of a field that the object lacks. The CRD lists the fields.
func TestASelfContainedProfileHoldsEveryFieldThatCouldHaveChanged(t *testing.T) {
	text, err := os.ReadFile("../../config/crd/bases/berth.dev_schedulingprofiles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)
	plain, _ := selfContained(t, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch"}})
	wantFields(t, "spec", schema, plain["spec"])
}

func wantFields(t *testing.T, path string, schema map[string]any, value any) {
	t.Helper()
	fields, _ := schema["properties"].(map[string]any)
	if schema["type"] != "object" || fields == nil || value == nil {
		return
	}
	for name, field := range fields {
		inner, there := value.(map[string]any)[name]
		if !there {
			t.Errorf("%s.%s is missing", path, name)
			continue
		}
		wantFields(t, path+"."+name, field.(map[string]any), inner) // null removes the field
	}
}

func TestASelfContainedProfileNeedsNoPluginConfig(t *testing.T) {
	config := &v1alpha1.PluginConfig{ObjectMeta: metav1.ObjectMeta{Name: "binpack"}}
	config.Spec.Args = runtime.RawExtension{Raw: []byte(`{"hardPodAffinityWeight":10}`)}
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch", Labels: map[string]string{"team": "a"}, Generation: 3}}
	p.Spec.PluginConfig = []v1alpha1.PluginArguments{
		{Name: "InterPodAffinity", ConfigRef: &v1alpha1.PluginConfigReference{Name: "binpack"}},
	}
	plain, back := selfContained(t, p, config)
	want := []v1alpha1.PluginArguments{{Name: "InterPodAffinity", Args: &config.Spec.Args}}
	if diff := cmp.Diff(want, back.Spec.PluginConfig); diff != "" {
		t.Errorf("pluginConfig (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"name": "batch"}, plain["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if p.Spec.PluginConfig[0].ConfigRef == nil || p.Spec.State != "" {
		t.Error("SelfContained changed its input")
	}
	if _, err := SelfContained(p, nil); err == nil || !strings.Contains(err.Error(), `"binpack"`) {
		t.Errorf("error %v does not name the missing PluginConfig", err)
	}
}

func TestASelfContainedProfileHasTheSameHash(t *testing.T) {
	weight := int32(5)
	for name, p := range map[string]v1alpha1.SchedulingProfileSpec{
		"the default": {},
		"a weight":    {Plugins: &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "ImageLocality", Weight: &weight}}}}},
		"settings":    {PercentageOfNodesToScore: 30, Decisions: v1alpha1.DecisionPolicy{TopScores: new(int32)}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: p}
			_, back := selfContained(t, spec)
			one, rejection := Profile(Input{Profile: spec, Registry: testRegistry()})
			two, again := Profile(Input{Profile: back, Registry: testRegistry()})
			if rejection != nil || again != nil {
				t.Fatalf("rejected: %v, %v", rejection, again)
			}
			if one.Hash != two.Hash {
				t.Errorf("hash %s, then %s", one.Hash, two.Hash)
			}
		})
	}
}
