package docs

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

// otherGroups are groups that only test/integration can validate.
var otherGroups = []string{"monitoring.coreos.com/", "kustomize.config.k8s.io/"}

// test/integration also sends them to the API server.
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
			for _, message := range manifestErrors(t, text) {
				t.Errorf("%s:%d: %s", page.Path, block.Line, message)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d manifests, want more: are all pages read?", found)
	}
}

// manifestErrors returns the errors of `kubectl berth lint` for kinds of Berth, and of a
// strict decoder for kinds of Kubernetes.
func manifestErrors(t *testing.T, text string) (messages []string) {
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
		if result := lint.Validate(object, files.Configs()); !result.Valid() {
			messages = append(messages, result.String())
		}
	}
	if len(files.Objects)+len(files.Others) == 0 {
		messages = append(messages, "contains no object")
	}
	strict := serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, document := range strings.Split(text, "\n---\n") {
		var kind runtime.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return append(messages, err.Error())
		}
		known := strings.HasPrefix(kind.APIVersion, "berth.dev/")
		for _, group := range otherGroups {
			known = known || strings.HasPrefix(kind.APIVersion, group)
		}
		if known {
			continue
		}
		if _, _, err := strict.Decode([]byte(document), nil, nil); err != nil {
			messages = append(messages, err.Error())
		}
	}
	return messages
}

func TestAnInvalidManifestIsFound(t *testing.T) {
	profile := "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: a}\nspec: "
	for name, c := range map[string]struct{ info, text, want string }{
		"an unknown plugin":         {"", profile + "{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}\n", `did you mean "NodeResourcesFit"`},
		"an unknown field of a pod": {"", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {schedulername: a}\n", `unknown field "spec.schedulername"`},
		"an unknown kind":           {"", "apiVersion: apps/v1\nkind: Deploymant\nmetadata: {name: a}\n", "no kind"},
		"an unknown argument":       {"args NodeResourcesFit", "ignored: [a]\n", "ignored"},
		"no object":                 {"", "# nothing\n", "contains no object"},
	} {
		text, err := Block{Language: "yaml", Info: c.info, Text: c.text}.Manifests(root)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(manifestErrors(t, text), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not contain %q", name, got, c.want)
		}
	}
	if _, err := (Block{Info: "snippet"}).Manifests(root); err == nil {
		t.Error("a block with unknown info is accepted")
	}
}
