package compile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// frame is what stands around one long resource name.
const emptyArguments = `{"ignoredResources":[""]}`

func TestRawArguments(t *testing.T) {
	for sentence, test := range map[string]struct{ raw, path, detail string }{
		"a key given twice is refused":       {`{"ignoredResources":["a"],"ignoredResources":["b"]}`, "spec.args.ignoredResources", "duplicate field: it may be given once"},
		"a nested key given twice too":       {`{"scoringStrategy":{"type":"MostAllocated","type":"MostAllocated"}}`, "spec.args.scoringStrategy.type", "duplicate field: it may be given once"},
		"what is not JSON is refused":        {`{"ignoredResources":`, "spec.args", "is not JSON: unexpected end of JSON input"},
		"arguments are an object":            {`["a"]`, "spec.args", "must be an object"},
		"a kind that is no string is told":   {`{"kind": 7}`, "spec.args.kind", "wrong type: must be a string, is a number"},
		"64 KiB and a byte are too much":     {`{"ignoredResources":["` + strings.Repeat("a", 64*1024-len(emptyArguments)+1) + `"]}`, "spec.args", "is 65537 bytes of JSON, must be at most 65536 (64 KiB)"},
		"a type error in a list has a place": {`{"ignoredResources": ["a", {"b": 1}]}`, "spec.args.ignoredResources[1]", "wrong type: must be a string, is an object"},
	} {
		t.Run(sentence, func(t *testing.T) {
			cfg := &v1alpha1.PluginConfig{Spec: v1alpha1.PluginConfigSpec{Plugin: "NodeResourcesFit"}}
			cfg.Spec.Args.Raw = []byte(test.raw)
			hash, rejection := Config(cfg, testRegistry())
			if rejection == nil || hash != "" {
				t.Fatalf("want a rejection and no hash, got %v and %q", rejection, hash)
			}
			want := []FieldError{{accepted, "InvalidArguments", test.path, test.detail}}
			if diff := cmp.Diff(want, rejection.Errors); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsOfExactly64KiBAreTaken(t *testing.T) {
	cfg := &v1alpha1.PluginConfig{Spec: v1alpha1.PluginConfigSpec{Plugin: "NodeResourcesFit"}}
	// White space does not count: the same arguments weigh the same however
	// they are laid out.
	cfg.Spec.Args.Raw = []byte("\n { \"ignoredResources\" : [\"" + strings.Repeat("a", 64*1024-len(emptyArguments)) + "\"] }\n")
	if _, rejection := Config(cfg, testRegistry()); rejection != nil {
		t.Errorf("refused: %s", rejection.Message())
	}
}

// kube-scheduler hands plugins of others their arguments so.
func TestAPluginThatDecodesItsOwnArgumentsGetsThemAsText(t *testing.T) {
	r := framework.Registration{Name: "Foreign", NewArgs: func() runtime.Object { return &runtime.Unknown{} }}
	for given, want := range map[string]string{
		"":                        `{}`,
		`{"b": {"c": 1}, "a": 2}`: `{"b":{"c":1},"a":2}`,
		`{"a": 1, "a": 2}`:        `refused: args.a: duplicate field: it may be given once`,
		`[1]`:                     `refused: args: must be an object`,
		`{"kind": "Other"}`:       `refused: args.kind: must be "ForeignArgs" or left out, is "Other"`,
	} {
		object, problems := decodeArguments(r, &runtime.RawExtension{Raw: []byte(given)}, field.NewPath("args"))
		got := ""
		if raw, ok := object.(*runtime.Unknown); ok {
			got = string(raw.Raw)
		}
		for _, p := range problems {
			got += "refused: " + p.path + ": " + p.detail
		}
		if got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
	if raw := newArguments(r).(*runtime.Unknown); string(raw.Raw) != "{}" || raw.ContentType != runtime.ContentTypeJSON {
		t.Errorf("nothing given becomes %q of type %q", raw.Raw, raw.ContentType)
	}
}
