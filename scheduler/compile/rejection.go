package compile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
)

// A rejection's message is stored in conditions, and the API server holds a
// condition's message to 32768 characters: twenty faults of this size leave
// room for what a controller puts before them.
const (
	maxErrorsInMessage = 20
	maxPathLength      = 256
	maxDetailLength    = 512
)

// Rejection says why a spec does not run. It holds every fault found, not the
// first one only.
type Rejection struct {
	Errors []FieldError
}

// Fault is one thing that is wrong with a spec.
type FieldError struct {
	// Condition is the condition the fault makes False: Accepted or
	// ResolvedRefs.
	Condition string
	// Reason is the condition's reason, one of api/v1alpha1's constants.
	Reason string
	// Path is the field at fault, such as spec.plugins.score.enabled[0].name.
	Path string
	// Detail says what is wrong and what would be right.
	Detail string
}

// Condition returns the first condition that the rejection makes False, and
// the reason of its first fault.
func (r *Rejection) Condition() (condition, reason string) {
	for _, c := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs} {
		if part := r.For(c); part != nil {
			return part.Errors[0].Condition, part.Errors[0].Reason
		}
	}
	return "", ""
}

// For returns the part of the rejection that one condition speaks about; nil
// when that condition has no fault. A nil Rejection has none.
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

// Message names every fault as "path: detail", at most twenty, and says how
// many more there are.
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
		b.WriteString(truncate(f.Path, maxPathLength) + ": " + truncate(f.Detail, maxDetailLength))
	}
	return b.String()
}

// shorten cuts s to at most limit characters, never inside one.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	characters := []rune(s)
	if len(characters) <= limit {
		return s
	}
	return string(characters[:limit-1]) + "…"
}

// faults collects what is wrong with a spec while it is read.
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

// rejection is nil when nothing is wrong.
func (f *fieldErrors) rejection() *Rejection {
	if len(f.list) == 0 {
		return nil
	}
	return &Rejection{Errors: f.list}
}
