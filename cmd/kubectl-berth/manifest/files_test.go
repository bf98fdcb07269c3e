package manifest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMoreThanIsReadOfStandardInputIsAnError(t *testing.T) {
	document := "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n---\n"
	files, err := Read(t.Context(), []string{"-"}, strings.NewReader(document+strings.Repeat("#\n", maxFileBytes/2)))
	if err == nil || !strings.Contains(err.Error(), "standard input: must be at most 16 MiB") {
		t.Errorf("read %v, %v", files, err)
	}
}

func TestAPolicyOfAnotherComponentIsNoConfiguration(t *testing.T) {
	for text, want := range map[string]int{
		`{"kind": "Policy", "apiVersion": "audit.k8s.io/v1", "rules": [{"level": "Metadata"}]}`:  0,
		`{"kind": "Policy", "apiVersion": "v1"}`:                                                 1,
		`{"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1"}`: 1,
	} {
		found, err := Configurations(Document{Source: "f", Object: &unstructured.Unstructured{Object: map[string]any{
			"kind": ConfigMap, "metadata": map[string]any{"name": "policies"}, "data": map[string]any{"policy.yaml": text},
		}}})
		if err != nil || len(found) != want {
			t.Errorf("%s: %d configurations, %v, want %d", text, len(found), err, want)
		}
	}
}
