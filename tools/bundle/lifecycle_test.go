package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

func container(b *manifests.Bundle) *corev1.Container {
	return &b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
}

// scorecardErrors returns what `operator-sdk scorecard` would report. A SchedulingDecision
// has no spec, and needs none.
func scorecardErrors(b *manifests.Bundle) (errs []string) {
	var examples []unstructured.Unstructured
	if err := json.Unmarshal([]byte(b.CSV.Annotations["alm-examples"]), &examples); err != nil {
		return []string{err.Error()}
	}
	owned := map[string]ownedCRD{}
	for _, d := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		owned[d.Kind] = d
		if len(d.Resources) == 0 {
			errs = append(errs, d.Kind+": no resources")
		}
	}
	for _, example := range examples {
		kind, name := example.GetKind(), example.GetName()
		described := map[string][]string{}
		for _, d := range owned[kind].SpecDescriptors {
			described["spec"] = append(described["spec"], d.Path)
		}
		for _, d := range owned[kind].StatusDescriptors {
			described["status"] = append(described["status"], d.Path)
		}
		if example.Object["spec"] == nil && kind != "SchedulingDecision" {
			errs = append(errs, fmt.Sprintf("%s %s: no spec", kind, name))
		}
		for _, part := range []string{"spec", "status"} {
			fields, _, _ := unstructured.NestedMap(example.Object, part)
			for field := range fields {
				if !slices.Contains(described[part], field) {
					errs = append(errs, fmt.Sprintf("%s %s: %s.%s is not described", kind, name, part, field))
				}
				if !inSchema(b, kind, part, field) {
					errs = append(errs, fmt.Sprintf("%s %s: the CRD does not know %s.%s", kind, name, part, field))
				}
			}
		}
	}
	return errs
}

func inSchema(b *manifests.Bundle, kind, part, field string) bool {
	for _, crd := range b.V1CRDs {
		if version := crd.Spec.Versions[0]; crd.Spec.Names.Kind == kind && version.Schema != nil {
			_, known := version.Schema.OpenAPIV3Schema.Properties[part].Properties[field]
			return known
		}
	}
	return false
}

// olmV1Errors returns why operator-controller, OLM v1, would not install the bundle.
func olmV1Errors(b *manifests.Bundle) (errs []string) {
	spec := b.CSV.Spec
	if b.Package == "" {
		errs = append(errs, "no package name")
	}
	allNamespaces := false
	for _, mode := range spec.InstallModes {
		allNamespaces = allNamespaces || mode.Type == "AllNamespaces" && mode.Supported
	}
	if !allNamespaces {
		errs = append(errs, "not for all namespaces")
	}
	if len(spec.APIServiceDefinitions.Owned) > 0 {
		errs = append(errs, "owns an APIService")
	}
	if len(spec.APIServiceDefinitions.Required) > 0 || len(spec.CustomResourceDefinitions.Required) > 0 || len(b.Dependencies) > 0 {
		errs = append(errs, "depends on something")
	}
	if len(spec.WebhookDefinitions) > 0 {
		errs = append(errs, "has webhooks, which need a provider of certificates")
	}
	names := map[string]bool{}
	for _, d := range spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		errs = append(errs, validation.IsDNS1123Subdomain(d.Name)...)
		if names["Deployment/"+d.Name] {
			errs = append(errs, "two Deployments "+d.Name)
		}
		names["Deployment/"+d.Name] = true
	}
	for _, o := range b.Objects {
		id := o.GetKind() + "/" + o.GetName()
		if names[id] {
			errs = append(errs, "twice: "+id)
		}
		names[id] = true
		if !slices.Contains(append(bundleKinds, "ClusterServiceVersion", "CustomResourceDefinition"), o.GetKind()) {
			errs = append(errs, "a kind that is not installed: "+id)
		}
	}
	for _, d := range spec.CustomResourceDefinitions.Owned {
		if !names["CustomResourceDefinition/"+d.Name] {
			errs = append(errs, "owns a CRD that is not there: "+d.Name)
		}
	}
	return errs
}

func TestTheScorecardAndOLMV1FindNothing(t *testing.T) {
	for _, errs := range slices.Concat(scorecardErrors(committedBundle(t)), olmV1Errors(committedBundle(t))) {
		t.Error(errs)
	}
	for name, tc := range map[string]struct {
		ask   func(*manifests.Bundle) []string
		spoil func(*manifests.Bundle)
	}{
		"no resources": {scorecardErrors, func(b *manifests.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned[0].Resources = nil }},
		"spec.spec is not described": {scorecardErrors, func(b *manifests.Bundle) {
			b.CSV.Annotations["alm-examples"] = `[{"kind":"PluginConfig","spec":{"spec":1}}]`
		}},
		"no spec": {scorecardErrors, func(b *manifests.Bundle) { b.CSV.Annotations["alm-examples"] = `[{"kind":"PluginConfig"}]` }},
		"the CRD does not know": {scorecardErrors, func(b *manifests.Bundle) {
			b.CSV.Annotations["alm-examples"] = `[{"kind":"PluginConfig","spec":{"x":1}}]`
		}},
		"no package name":        {olmV1Errors, func(b *manifests.Bundle) { b.Package = "" }},
		"not for all namespaces": {olmV1Errors, func(b *manifests.Bundle) { b.CSV.Spec.InstallModes = nil }},
		"twice":                  {olmV1Errors, func(b *manifests.Bundle) { b.Objects = append(b.Objects, b.Objects[0]) }},
		"owns a CRD that is not there": {olmV1Errors, func(b *manifests.Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Owned[0].Name = "ships.berth.dev"
		}},
		"a kind that is not installed": {olmV1Errors, func(b *manifests.Bundle) { b.Objects[0].SetKind("Ship") }},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := committedBundle(t)
			tc.spoil(bundle)
			if got := tc.ask(bundle); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, name) }) {
				t.Errorf("errors: %q", got)
			}
		})
	}
}
