package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/cmd/kubectl-berth/lint"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
)

// beyond are kinds that only test/integration knows what to do with.
var otherGroups = []string{"monitoring.coreos.com/", "kustomize.config.k8s.io/"}

// What the API server itself says of them, test/integration asks.
func TestEveryManifestIsValid(t *testing.T) {
	found := 0
	for _, page := range allPages(t) {
		for _, block := range page.Blocks {
			if block.Language != "yaml" {
				continue
			}
			found++
			text, err := block.Manifests(root)
			if err != nil {
				t.Errorf("%s:%d: %v", page.Path, block.Line, err)
				continue
			}
			for _, fault := range manifestErrors(t, text) {
				t.Errorf("%s:%d: %s", page.Path, block.Line, fault)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d manifests in all: are they still read?", found)
	}
}

// faultsOf are what `kubectl berth lint` says of Berth's own kinds, and what a
// strict decoder says of Kubernetes'.
func manifestErrors(t *testing.T, text string) (faults []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "block.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	files, err := manifest.Read(t.Context(), []string{file}, nil)
	if err != nil {
		return []string{err.Error()}
	}
	for _, object := range files.Objects {
		if verdict := lint.Validate(object, files.Configs()); !verdict.Valid() {
			faults = append(faults, verdict.String())
		}
	}
	if len(files.Objects)+len(files.Others) == 0 {
		faults = append(faults, "there is no object in it")
	}
	strict := serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, document := range strings.Split(text, "\n---\n") {
		var kind runtime.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return append(faults, err.Error())
		}
		known := strings.HasPrefix(kind.APIVersion, "berth.dev/")
		for _, group := range otherGroups {
			known = known || strings.HasPrefix(kind.APIVersion, group)
		}
		if known {
			continue
		}
		if _, _, err := strict.Decode([]byte(document), nil, nil); err != nil {
			faults = append(faults, err.Error())
		}
	}
	return faults
}

func TestAnInvalidManifestIsFound(t *testing.T) {
	profile := "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: a}\nspec: "
	for sentence, c := range map[string]struct{ info, text, want string }{
		"a plugin that there is not":         {"", profile + "{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}\n", `did you mean "NodeResourcesFit"`},
		"a field of a pod that there is not": {"", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {schedulername: a}\n", `unknown field "spec.schedulername"`},
		"a kind that there is not":           {"", "apiVersion: apps/v1\nkind: Deploymant\nmetadata: {name: a}\n", "no kind"},
		"an argument that there is not":      {"args NodeResourcesFit", "ignored: [a]\n", "ignored"},
		"nothing at all":                     {"", "# nothing\n", "there is no object"},
	} {
		text, err := Block{Language: "yaml", Info: c.info, Text: c.text}.Manifests(root)
		if err != nil {
			t.Errorf("%s: %v", sentence, err)
			continue
		}
		if got := strings.Join(manifestErrors(t, text), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not hold %q", sentence, got, c.want)
		}
	}
	if _, err := (Block{Info: "snippet"}).Manifests(root); err == nil {
		t.Error("a block that says something else is taken")
	}
}
