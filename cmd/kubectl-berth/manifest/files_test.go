package manifest

import (
	"strings"
	"testing"
)

func TestMoreThanIsReadOfStandardInputIsAnError(t *testing.T) {
	document := "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n---\n"
	files, err := Read(t.Context(), []string{"-"}, strings.NewReader(document+strings.Repeat("#\n", maxFileBytes/2)))
	if err == nil || !strings.Contains(err.Error(), "standard input: must be at most 16 MiB") {
		t.Errorf("read %v, %v", files, err)
	}
}
