package compile

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestBoundsAreThoseOfTheCRD(t *testing.T) {
	text, err := os.ReadFile("../../config/crd/bases/berth.dev_schedulingprofiles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	root := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)

	var spec v1alpha1.SchedulingProfileSpec
	spec.SetDefaults()
	for _, b := range bounds(&spec, field.NewPath("spec")) {
		node := root
		for _, name := range strings.Split(b.path.String(), ".") {
			node, _ = node["properties"].(map[string]any)[name].(map[string]any)
		}
		if node["minimum"] != float64(b.min) || node["maximum"] != float64(b.max) {
			t.Errorf("%s: from %d to %d here, from %v to %v in the CRD", b.path, b.min, b.max, node["minimum"], node["maximum"])
		}
	}
}
