package compile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestMessageNamesEveryErrorUpToTwenty(t *testing.T) {
	var r Rejection
	for i := range 23 {
		r.Errors = append(r.Errors, FieldError{Condition: resolvedRefs, Reason: "PluginConfigNotFound", Path: fmt.Sprintf("p[%d]", i), Detail: "d"})
	}
	r.Errors = append(r.Errors, FieldError{Condition: accepted, Reason: "UnknownPlugin", Path: "q", Detail: strings.Repeat("é", 600)})

	if got := r.Message(); !strings.HasPrefix(got, "p[0]: d; p[1]: d; ") || !strings.HasSuffix(got, "p[19]: d; and 4 more") {
		t.Errorf("message: %s", got)
	}
	if condition, reason := r.Condition(); condition != accepted || reason != "UnknownPlugin" {
		t.Errorf("Accepted comes before ResolvedRefs, got %s, %s", condition, reason)
	}
	if got, want := r.For(v1alpha1.ConditionAccepted).Message(), "q: "+strings.Repeat("é", 511)+"…"; got != want {
		t.Errorf("a long detail is cut between characters, got %s", got)
	}
	if part := r.For(v1alpha1.ConditionProgrammed); part != nil {
		t.Errorf("no fault speaks about Programmed, got %v", part)
	}
}
