package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
)

// TestSpecFieldsMatchTheFrozenList compares the fields of spec, with their types and
// defaults, with testdata/fields.txt: the fields as v1beta1 will freeze them. A change
// of that file is a change of the API. By docs/adr/0024-the-way-to-v1beta1.md it must
// be a rename before the first release, or an addition.
func TestSpecFieldsMatchTheFrozenList(t *testing.T) {
	var lines []string
	for _, c := range readCRDs(t) {
		if spec, ok := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; ok {
			describeFields(c.Spec.Names.Kind+".spec", spec, &lines)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const file = "testdata/fields.txt"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func describeFields(path string, n node, lines *[]string) {
	line := path + " " + n.Type
	for _, part := range []struct {
		name  string
		value any
		set   bool
	}{
		{"default", n.Default, n.Default != nil}, {"enum", n.Enum, n.Enum != nil}, {"list", n.ListType, n.ListType != ""},
		{"keys", n.ListMapKeys, n.ListMapKeys != nil}, {"required", n.Required, n.Required != nil},
	} {
		if part.set {
			text, _ := json.Marshal(part.value)
			line += fmt.Sprintf(" %s=%s", part.name, text)
		}
	}
	*lines = append(*lines, line)
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		describeFields(path+"."+name, n.Properties[name], lines)
	}
	if n.Items != nil {
		describeFields(path+"[]", *n.Items, lines)
	}
}

// TestProfilesRoundTripThroughEachInterchangeableVersion checks that a profile stored
// under one version is decoded without a change.
func TestProfilesRoundTripThroughEachInterchangeableVersion(t *testing.T) {
	codecs := serializer.NewCodecFactory(runtime.NewScheme())
	arguments := func(serializer.CodecFactory) []any {
		return []any{func(r *runtime.RawExtension, c randfill.Continue) {
			*r = runtime.RawExtension{Raw: []byte(fmt.Sprintf(`{"weight":%d}`, c.Int31()))}
		}}
	}
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, arguments), rand.NewSource(1), codecs)
	for range 200 {
		p := &SchedulingProfile{}
		fill.Fill(p)
		for _, version := range Interchangeable {
			p.SetGroupVersionKind(version.WithKind("SchedulingProfile"))
			text, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeProfile(text)
			if err != nil {
				t.Fatal(err)
			}
			if got.APIVersion != GroupVersion.String() {
				t.Fatalf("has apiVersion %s", got.APIVersion)
			}
			got.APIVersion = version.String()
			if !equality.Semantic.DeepEqual(p, got) { // it treats an empty list as a missing one
				again, _ := json.Marshal(got)
				t.Fatalf("%s (-stored +read):\n%s", version, cmp.Diff(string(text), string(again)))
			}
		}
	}
}

func TestDecodeProfileRejectsOtherKindsAndVersions(t *testing.T) {
	for sentence, text := range map[string]string{
		"a version that is not known": `{"apiVersion":"berth.dev/v2","kind":"SchedulingProfile"}`,
		"another group":               `{"apiVersion":"example.com/v1beta1","kind":"SchedulingProfile"}`,
		"another kind":                `{"apiVersion":"berth.dev/v1alpha1","kind":"PluginConfig"}`,
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := DecodeProfile([]byte(text))
			if err == nil || !strings.Contains(err.Error(), "must be kind SchedulingProfile of berth.dev/v1alpha1 or berth.dev/v1beta1") {
				t.Errorf("got %v", err)
			}
		})
	}
}
