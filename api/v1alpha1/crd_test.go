package v1alpha1

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// crd is the part of a CustomResourceDefinition that the tests read.
type crd struct {
	Spec struct {
		Names struct {
			Kind       string   `json:"kind"`
			ShortNames []string `json:"shortNames"`
			Categories []string `json:"categories"`
		} `json:"names"`
		Scope    string `json:"scope"`
		Versions []struct {
			AdditionalPrinterColumns []struct {
				Name     string `json:"name"`
				Priority int    `json:"priority"`
			} `json:"additionalPrinterColumns"`
			SelectableFields []struct {
				JSONPath string `json:"jsonPath"`
			} `json:"selectableFields"`
			Schema struct {
				OpenAPIV3Schema node `json:"openAPIV3Schema"`
			} `json:"schema"`
			Subresources map[string]any `json:"subresources"`
		} `json:"versions"`
	} `json:"spec"`
}

// node is one schema of an OpenAPI document: a field, or the items of a list.
type node struct {
	Type        string          `json:"type"`
	Format      string          `json:"format"`
	Description string          `json:"description"`
	Default     any             `json:"default"`
	Enum        []any           `json:"enum"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MaxLength   *int64          `json:"maxLength"`
	MaxItems    *int64          `json:"maxItems"`
	Required    []string        `json:"required"`
	Properties  map[string]node `json:"properties"`
	Items       *node           `json:"items"`
	ListType    string          `json:"x-kubernetes-list-type"`
	ListMapKeys []string        `json:"x-kubernetes-list-map-keys"`
	MapType     string          `json:"x-kubernetes-map-type"`
	Preserve    bool            `json:"x-kubernetes-preserve-unknown-fields"`
}

func readCRDs(t *testing.T) map[string]crd {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	byKind := map[string]crd{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c crd
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		byKind[c.Spec.Names.Kind] = c
	}
	return byKind
}

func (c crd) root() node { return c.Spec.Versions[0].Schema.OpenAPIV3Schema }

// walkFields calls f for every field below s, with the path and the name of each.
func walkFields(s node, path string, f func(path, name string, field node)) {
	for name, field := range s.Properties {
		at := path + "." + name
		f(at, name, field)
		walkFields(field, at, f)
		if field.Items != nil {
			walkFields(*field.Items, at+"[]", f)
		}
	}
}

// conventions are the rules of the Kubernetes API conventions that a generated schema
// can be checked against, by the sentence that names the rule.
var conventions = map[string]func(path, name string, s node) bool{
	"a field's description begins with its name": func(_, name string, s node) bool {
		return strings.HasPrefix(s.Description, name+" ")
	},
	"a list says how it merges": func(_, _ string, s node) bool {
		return s.Type != "array" || s.ListType == "atomic" || s.ListType == "set" || (s.ListType == "map" && len(s.ListMapKeys) > 0)
	},
	"a list is bounded": func(_, _ string, s node) bool { return s.Type != "array" || s.MaxItems != nil },
	"a string is bounded, by length, format or enum": func(_, _ string, s node) bool {
		return s.Type != "string" || s.MaxLength != nil || s.Format != "" || len(s.Enum) > 0
	},
	"an integer has a size and a lower bound": func(_, _ string, s node) bool {
		return s.Type != "integer" || (s.Minimum != nil && (s.Format == "int32" || s.Format == "int64"))
	},
	"an integer in the spec has an upper bound": func(path, _ string, s node) bool {
		return s.Type != "integer" || !strings.HasPrefix(path, ".spec") || s.Maximum != nil
	},
	"there are no floating point numbers": func(_, _ string, s node) bool { return s.Type != "number" },
	"there is no boolean, except where kube-scheduler's extenders have one: an enum is used": func(path, _ string, s node) bool {
		return s.Type != "boolean" || strings.HasPrefix(path, ".spec.extenders[]")
	},
	"a duration is a number whose name ends in its unit": func(_, name string, s node) bool {
		return s.Format != "duration" && (s.Type != "string" || !strings.HasSuffix(name, "Timeout"))
	},
	"there is no phase: conditions are used": func(_, name string, _ node) bool { return name != "phase" },
	"an object without a schema is atomic": func(_, _ string, s node) bool {
		return !s.Preserve || (s.Type == "object" && s.MapType == "atomic")
	},
	"an object with a default inside has a default itself": func(_, _ string, s node) bool {
		for _, child := range s.Properties {
			if child.Default != nil && s.Default == nil {
				return false
			}
		}
		return true
	},
}

func TestFieldsFollowTheAPIConventions(t *testing.T) {
	crds := readCRDs(t)
	for rule, holds := range conventions {
		t.Run(rule, func(t *testing.T) {
			for kind, c := range crds {
				for _, part := range []string{"spec", "status"} {
					if _, ok := c.root().Properties[part]; !ok {
						continue // SchedulingDecision has no spec
					}
					walkFields(node{Properties: map[string]node{part: c.root().Properties[part]}}, "", func(path, name string, s node) {
						// The fields of a condition are Kubernetes' own.
						if !strings.HasPrefix(path, ".status.conditions[]") && !holds(path, name, s) {
							t.Errorf("%s%s", kind, path)
						}
					})
				}
			}
		})
	}
}

// statusOnlyKinds have only a status, which is written once: a status subresource would
// drop the status at creation.
var statusOnlyKinds = []string{"SchedulingDecision"}

func TestStatusIsOptionalAndASubresource(t *testing.T) {
	for kind, c := range readCRDs(t) {
		if slices.Contains(statusOnlyKinds, kind) {
			if _, ok := c.Spec.Versions[0].Subresources["status"]; ok {
				t.Errorf("%s: has a status subresource, so that each object needs two writes", kind)
			}
			if _, ok := c.root().Properties["spec"]; ok {
				t.Errorf("%s: has a spec", kind)
			}
			continue
		}
		if _, ok := c.Spec.Versions[0].Subresources["status"]; !ok {
			t.Errorf("%s: no status subresource", kind)
		}
		status := c.root().Properties["status"]
		if len(status.Required) > 0 {
			t.Errorf("%s: status requires %v", kind, status.Required)
		}
		conditions := status.Properties["conditions"]
		if conditions.ListType != "map" || len(conditions.ListMapKeys) != 1 || conditions.ListMapKeys[0] != "type" || *conditions.MaxItems != 16 {
			t.Errorf("%s: conditions are not a map by type of at most 16", kind)
		}
	}
}
