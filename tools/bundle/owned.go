package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Descriptors that tell consoles how to display a field.
const (
	asConditions = "urn:alm:descriptor:io.kubernetes.conditions"
	asNumber     = "urn:alm:descriptor:com.tectonic.ui:number"
	asText       = "urn:alm:descriptor:text"
	asChoice     = "urn:alm:descriptor:com.tectonic.ui:select:"
)

// ownedCRDs describes each CRD. The descriptions are those of the schema, from the comments
// of the Go types; the base has the other fields, and must have each CRD.
func (s *source) ownedCRDs() ([]v1alpha1.CRDDescription, error) {
	all := s.base.Spec.CustomResourceDefinitions.DeepCopy().Owned
	for i := range all {
		at := slices.IndexFunc(s.crds, func(c crd) bool { return c.def.Name == all[i].Name })
		if at < 0 {
			return nil, fmt.Errorf("config/manifests: owned: no CustomResourceDefinition %s", all[i].Name)
		}
		describe(&all[i], s.crds[at].def)
	}
	for _, c := range s.crds {
		if !slices.ContainsFunc(all, func(d v1alpha1.CRDDescription) bool { return d.Name == c.def.Name }) {
			return nil, fmt.Errorf("config/manifests: owned: %s is missing", c.def.Name)
		}
	}
	return all, nil
}

func describe(d *v1alpha1.CRDDescription, of apiextensionsv1.CustomResourceDefinition) {
	version := of.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	d.Kind, d.Version = of.Spec.Names.Kind, version.Name
	d.Description = oneLine(schema.Description)
	for name, field := range fields(schema, "spec") {
		d.SpecDescriptors = append(d.SpecDescriptors, v1alpha1.SpecDescriptor{
			Path: name, DisplayName: displayName(name), Description: oneLine(field.Description), XDescriptors: xDescriptors(name, field),
		})
	}
	for name, field := range fields(schema, "status") {
		d.StatusDescriptors = append(d.StatusDescriptors, v1alpha1.StatusDescriptor{
			Path: name, DisplayName: displayName(name), Description: oneLine(field.Description), XDescriptors: xDescriptors(name, field),
		})
	}
}

// fields returns the top-level fields of spec or status, sorted by name.
func fields(schema *apiextensionsv1.JSONSchemaProps, of string) func(func(string, apiextensionsv1.JSONSchemaProps) bool) {
	properties := schema.Properties[of].Properties
	return func(yield func(string, apiextensionsv1.JSONSchemaProps) bool) {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !yield(name, properties[name]) {
				return
			}
		}
	}
}

// xDescriptors returns how a console displays a field; nil for its default.
func xDescriptors(name string, field apiextensionsv1.JSONSchemaProps) []string {
	switch {
	case name == "conditions":
		return []string{asConditions}
	case len(field.Enum) > 0:
		var choices []string
		for _, value := range field.Enum {
			choices = append(choices, asChoice+strings.Trim(string(value.Raw), `"`))
		}
		return choices
	case field.Type == "integer":
		return []string{asNumber}
	case field.Type == "string":
		return []string{asText}
	}
	return nil
}

// displayName splits the name of a field into words: "pluginConfig" is "Plugin Config".
func displayName(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i == 0 {
			r = unicode.ToUpper(r)
		} else if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
