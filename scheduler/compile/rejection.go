package compile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// The API server limits a condition's message to 32768 characters. Twenty errors of
// this size leave room for what a controller puts in front of them.
const (
	maxErrorsInMessage = 20
	maxPathLength      = 256
	maxDetailLength    = 512
)

// Rejection says why a spec cannot run. It holds all field errors, not only the first.
type Rejection struct {
	Errors []FieldError
}

// FieldError is one invalid field of a spec.
type FieldError struct {
	// Condition is the condition that the error makes False: Accepted or
	// ResolvedRefs.
	Condition string
	// Reason is that condition's reason, one of api/v1alpha1's constants.
	Reason string
	// Path is the field, such as spec.plugins.score.enabled[0].name.
	Path string
	// Detail says what is wrong and what would be valid.
	Detail string
}

// Condition returns the first condition that the rejection makes False, Accepted
// before ResolvedRefs, and the reason of its first error.
func (r *Rejection) Condition() (condition, reason string) {
	for _, c := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs} {
		if part := r.For(c); part != nil {
			return part.Errors[0].Condition, part.Errors[0].Reason
		}
	}
	return "", ""
}

// For returns the part of the rejection that belongs to one condition; nil when that
// condition has no error. It may be called on a nil Rejection.
func (r *Rejection) For(condition v1alpha1.ConditionType) *Rejection {
	if r == nil {
		return nil
	}
	var part Rejection
	for _, f := range r.Errors {
		if f.Condition == string(condition) {
			part.Errors = append(part.Errors, f)
		}
	}
	if len(part.Errors) == 0 {
		return nil
	}
	return &part
}

// Message lists the errors as "path: detail", at most twenty, and says how many more
// there are.
func (r *Rejection) Message() string {
	var b strings.Builder
	for i, f := range r.Errors {
		if i == maxErrorsInMessage {
			fmt.Fprintf(&b, "; and %d more", len(r.Errors)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(decision.Truncate(f.Path, maxPathLength) + ": " + decision.Truncate(f.Detail, maxDetailLength))
	}
	return b.String()
}

// fieldErrors collects the errors of a spec while it is compiled.
type fieldErrors struct {
	list []FieldError
}

func (f *fieldErrors) addAccepted(reason v1alpha1.ConditionReason, path *field.Path, format string, args ...any) {
	f.add(v1alpha1.ConditionAccepted, reason, path.String(), fmt.Sprintf(format, args...))
}

func (f *fieldErrors) addResolvedRefs(reason v1alpha1.ConditionReason, path *field.Path, format string, args ...any) {
	f.add(v1alpha1.ConditionResolvedRefs, reason, path.String(), fmt.Sprintf(format, args...))
}

func (f *fieldErrors) add(condition v1alpha1.ConditionType, reason v1alpha1.ConditionReason, path, detail string) {
	f.list = append(f.list, FieldError{Condition: string(condition), Reason: string(reason), Path: path, Detail: detail})
}

// rejection returns the collected errors; nil when there are none.
func (f *fieldErrors) rejection() *Rejection {
	if len(f.list) == 0 {
		return nil
	}
	return &Rejection{Errors: f.list}
}
