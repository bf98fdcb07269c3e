package badinput

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// The samples are valid input.
func TestEverySampleRunsAndSaysWhatItShows(t *testing.T) {
	const folder = "../../../config/samples"
	files, err := filepath.Glob(folder + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("there is no comment that says what it shows")
			}
			objects, err := decode(text)
			if err != nil {
				t.Fatal(err)
			}
			// A sample is a case whose last document is the profile.
			if rejection := compileCase(t, Case{Objects: objects}); rejection != nil {
				t.Errorf("rejected: %s", rejection.Message())
			}
		})
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	text, err := os.ReadFile(folder + "/Kustomization")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	if len(kustomization.Resources) != len(files) {
		t.Errorf("Kustomization lists %d of %d samples", len(kustomization.Resources), len(files))
	}
}

func TestTheSameArgumentsHaveTheSameHashInlineAndByReference(t *testing.T) {
	objects := func(text string) Case {
		list, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return Case{Objects: list}
	}
	const profile = "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: p}\nspec:\n  pluginConfig:\n  - {name: NodeResourcesFit, "
	const config = "apiVersion: berth.dev/v1alpha1\nkind: PluginConfig\nmetadata: {name: c}\nspec: {plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}\n---\n"
	inline := hashOf(t, objects(profile+"args: {scoringStrategy: {type: MostAllocated}}}\n"))
	byReference := hashOf(t, objects(config+profile+"configRef: {name: c}}\n"))
	if inline != byReference {
		t.Errorf("inline %s, by reference %s", inline, byReference)
	}
}

func hashOf(t *testing.T, c Case) string {
	t.Helper()
	profile := &v1alpha1.SchedulingProfile{}
	convert(t, c.Bad(), profile)
	blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Configs: configsBefore(t, c), Registry: plugins.InTree()})
	if rejection != nil {
		t.Fatalf("rejected: %s", rejection.Message())
	}
	return blueprint.Hash
}
