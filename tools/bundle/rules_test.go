package main

import (
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
)

type ownedCRD = v1alpha1.CRDDescription

// validators are all sets of validators except MultipleArchitecturesValidator, which needs
// docker and a registry.
var validators = map[string]interfaces.Validator{
	"ClusterServiceVersion":    validation.ClusterServiceVersionValidator,
	"CustomResourceDefinition": validation.CustomResourceDefinitionValidator,
	"Bundle":                   validation.BundleValidator,
	"OperatorHubV2":            validation.OperatorHubV2Validator,
	"StandardCategories":       validation.StandardCategoriesValidator,
	"StandardCapabilities":     validation.StandardCapabilitiesValidator,
	"Object":                   validation.ObjectValidator,
	"OperatorGroup":            validation.OperatorGroupValidator,
	"AlphaDeprecatedAPIs":      validation.AlphaDeprecatedAPIsValidator,
	"GoodPractices":            validation.GoodPracticesValidator,
	"PackageManifest":          validation.PackageManifestValidator,
	"Community":                validation.CommunityOperatorValidator,
}

// validatorMessages returns the errors and warnings of a validator for a bundle.
func validatorMessages(judge interfaces.Validator, bundle *manifests.Bundle) []string {
	objects := append(bundle.ObjectsToValidate(), map[string]string{"k8s-version": "1.37"})
	var said []string
	for _, result := range judge.Validate(objects...) {
		for _, e := range slices.Concat(result.Errors, result.Warnings) {
			said = append(said, errors.Error.Error(e))
		}
	}
	return said
}

func TestNoValidatorHasAWarning(t *testing.T) {
	for name, judge := range validators {
		t.Run(name, func(t *testing.T) {
			for _, said := range validatorMessages(judge, committedBundle(t)) {
				t.Error(said)
			}
		})
	}
}

// A validator that reports nothing for a wrong bundle would prove nothing.
func TestTheValidatorsFindErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		judge string
		spoil func(*manifests.Bundle)
	}{
		"a kind without an example": {"ClusterServiceVersion", func(b *manifests.Bundle) { b.CSV.Annotations["alm-examples"] = "[]" }},
		"a CRD that is not owned": {"Bundle", func(b *manifests.Bundle) {
			b.CSV.Spec.CustomResourceDefinitions.Owned = b.CSV.Spec.CustomResourceDefinitions.Owned[1:]
		}},
		"no icon":                     {"OperatorHubV2", func(b *manifests.Bundle) { b.CSV.Spec.Icon = nil }},
		"no oldest Kubernetes":        {"OperatorHubV2", func(b *manifests.Bundle) { b.CSV.Spec.MinKubeVersion = "" }},
		"a category nobody knows":     {"StandardCategories", func(b *manifests.Bundle) { b.CSV.Annotations["categories"] = "Ships" }},
		"a capability nobody knows":   {"StandardCapabilities", func(b *manifests.Bundle) { b.CSV.Annotations["capabilities"] = "Sails" }},
		"a channel of another style":  {"GoodPractices", func(b *manifests.Bundle) { b.Channels = []string{"berth"} }},
		"a kind without description":  {"GoodPractices", func(b *manifests.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned[0].Description = "" }},
		"a container without request": {"GoodPractices", func(b *manifests.Bundle) { container(b).Resources.Requests = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := committedBundle(t)
			tc.spoil(bundle)
			if len(validatorMessages(validators[tc.judge], bundle)) == 0 {
				t.Errorf("the validator %s says nothing", tc.judge)
			}
		})
	}
}
