// Package log reads and writes the logs that schedulers are replayed from: a
// cluster's history, one JSON object a line. The order of the lines is the
// order in which things happened.
//
//	{"op":"apply","object":{…}}          an object is new or changed
//	{"op":"delete","object":{…}}         it is gone: kind, namespace and name say which
//	{"op":"schedule","object":{…}}       a pod without a node: one attempt; with "start":I
//	                                     its walk over the nodes starts at the Ith, from 0
//	{"op":"schedule-batch","count":N,"object":{…}}   N copies of it, NAME-0 and on
//
// A pod that is applied is on its spec.nodeName, or without one is nominated
// for its status.nominatedNodeName.
package log

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kind says what happens in a line.
type Kind string

// The kinds of lines.
const (
	Apply         Kind = "apply"
	Delete        Kind = "delete"
	Schedule      Kind = "schedule"
	ScheduleBatch Kind = "schedule-batch"
)

// Object is what a line is about.
type Object interface {
	runtime.Object
	metav1.Object
}

// Op is one thing that happens. A batch is read as so many Schedules.
type Op struct {
	// Line is where it stands, from 1; 0 for what was never in a file.
	Line int
	Kind Kind
	// Object is a *v1.Pod where Kind is Schedule.
	Object Object
	// Start is the index of the node at which a Schedule's walk over the nodes
	// starts; nil: where the last walk ended.
	Start *int
}

// Errorf says what is wrong with one field of the op's object, such as
// spec.nodeName.
func (op Op) Errorf(field, format string, args ...any) error {
	return &Error{Line: op.Line, Field: "object." + field, Detail: fmt.Sprintf(format, args...)}
}

// Error says what is wrong with a line.
type Error struct {
	Line int
	// Field is its place in the line's object, such as object.metadata.name;
	// empty when the line as a whole is meant.
	Field  string
	Detail string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Detail)
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Field, e.Detail)
}
