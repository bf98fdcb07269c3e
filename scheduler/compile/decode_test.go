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

// emptyArguments are arguments with one resource name, which is empty.
const emptyArguments = `{"ignoredResources":[""]}`

func TestRawArguments(t *testing.T) {
	for name, test := range map[string]struct{ raw, path, detail string }{
		"a duplicate key":             {`{"ignoredResources":["a"],"ignoredResources":["b"]}`, "spec.args.ignoredResources", "duplicate field: it may be given once"},
		"a duplicate nested key":      {`{"scoringStrategy":{"type":"MostAllocated","type":"MostAllocated"}}`, "spec.args.scoringStrategy.type", "duplicate field: it may be given once"},
		"invalid JSON":                {`{"ignoredResources":`, "spec.args", "is not JSON: unexpected end of JSON input"},
		"a list instead of an object": {`["a"]`, "spec.args", "must be an object"},
		"a kind that is not a string": {`{"kind": 7}`, "spec.args.kind", "wrong type: must be a string, is a number"},
		"one byte more than 64 KiB":   {`{"ignoredResources":["` + strings.Repeat("a", 64*1024-len(emptyArguments)+1) + `"]}`, "spec.args", "is 65537 bytes of JSON, must be at most 65536 (64 KiB)"},
		"a wrong type in a list":      {`{"ignoredResources": ["a", {"b": 1}]}`, "spec.args.ignoredResources[1]", "wrong type: must be a string, is an object"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &v1alpha1.PluginConfig{Spec: v1alpha1.PluginConfigSpec{Plugin: "NodeResourcesFit"}}
			cfg.Spec.Args.Raw = []byte(test.raw)
			hash, rejection := Config(cfg, testRegistry())
			if rejection == nil || hash != "" {
				t.Fatalf("want a rejection and no hash, got %v and %q", rejection, hash)
			}
			want := []FieldError{{accepted, "InvalidArguments", test.path, test.detail}}
			if diff := cmp.Diff(want, rejection.Errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsOfExactly64KiBAreTaken(t *testing.T) {
	cfg := &v1alpha1.PluginConfig{Spec: v1alpha1.PluginConfigSpec{Plugin: "NodeResourcesFit"}}
	// White space does not count towards the limit.
	cfg.Spec.Args.Raw = []byte("\n { \"ignoredResources\" : [\"" + strings.Repeat("a", 64*1024-len(emptyArguments)) + "\"] }\n")
	if _, rejection := Config(cfg, testRegistry()); rejection != nil {
		t.Errorf("rejected: %s", rejection.Message())
	}
}

// kube-scheduler passes arguments to out-of-tree plugins in the same form.
func TestAPluginThatDecodesItsOwnArgumentsGetsThemAsText(t *testing.T) {
	r := framework.Registration{Name: "OutOfTree", NewArgs: func() runtime.Object { return &runtime.Unknown{} }}
	for given, want := range map[string]string{
		"":                        `{}`,
		`{"b": {"c": 1}, "a": 2}`: `{"b":{"c":1},"a":2}`,
		`{"a": 1, "a": 2}`:        `rejected: args.a: duplicate field: it may be given once`,
		`[1]`:                     `rejected: args: must be an object`,
		`{"kind": "Other"}`:       `rejected: args.kind: must be "OutOfTreeArgs" or left out, is "Other"`,
	} {
		object, argErrs := decodeArguments(r, &runtime.RawExtension{Raw: []byte(given)}, field.NewPath("args"))
		got := ""
		if raw, ok := object.(*runtime.Unknown); ok {
			got = string(raw.Raw)
		}
		for _, p := range argErrs {
			got += "rejected: " + p.path + ": " + p.detail
		}
		if got != want {
			t.Errorf("%s becomes %s, want %s", given, got, want)
		}
	}
	if raw := newArguments(r).(*runtime.Unknown); string(raw.Raw) != "{}" || raw.ContentType != runtime.ContentTypeJSON {
		t.Errorf("nothing given becomes %q of type %q", raw.Raw, raw.ContentType)
	}
}
