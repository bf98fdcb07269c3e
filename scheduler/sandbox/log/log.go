// Package log reads and writes replay logs: the history of a cluster, one JSON object per
// line. The order of the lines is the order of the events.
//
//	{"op":"apply","object":{…}}          an object is created or updated
//	{"op":"delete","object":{…}}         the object of this kind, namespace and name is deleted
//	{"op":"schedule","object":{…}}       one attempt for a pod without a node; "start":I sets
//	                                     the index, from 0, of the node at which it starts
//	{"op":"schedule-batch","count":N,"object":{…}}   one attempt for each of the N copies
//	                                     NAME-0 … NAME-(N-1)
//
// An applied pod is bound to its spec.nodeName, or without one is nominated for its
// status.nominatedNodeName.
package log

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Kind is the kind of an op.
type Kind string

// The kinds of ops.
const (
	Apply         Kind = "apply"
	Delete        Kind = "delete"
	Schedule      Kind = "schedule"
	ScheduleBatch Kind = "schedule-batch"
)

// Object is the object of a line.
type Object interface {
	runtime.Object
	metav1.Object
}

// Op is one event or attempt. A batch is read as one Schedule per copy.
type Op struct {
	// Line is the line in the file, from 1; 0 if the op is not from a file.
	Line int
	Kind Kind
	// Object is a *v1.Pod where Kind is Schedule.
	Object Object
	// Start is the index of the node at which a Schedule starts; nil means where the
	// last attempt ended.
	Start *int
}

// Errorf returns an error about one field of the op's object, such as spec.nodeName.
func (op Op) Errorf(field, format string, args ...any) error {
	return &Error{Line: op.Line, Field: "object." + field, Detail: fmt.Sprintf(format, args...)}
}

// Error is an error in one line.
type Error struct {
	Line int
	// Field is a path in the line, such as object.metadata.name; empty if the error is
	// about the whole line.
	Field  string
	Detail string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %s", e.Line, e.Detail)
	}
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Field, e.Detail)
}

// WriteAll writes ops as a log.
func WriteAll(w io.Writer, ops []Op) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for i, op := range ops {
		object, err := withKind(op.Object)
		if err != nil {
			return fmt.Errorf("op %d: %w", i, err)
		}
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("op %d: %w", i, err)
		}
		if err := encoder.Encode(entry{Op: op.Kind, Start: op.Start, Object: text}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// withKind returns a copy of the object with its kind set, which typed objects leave out.
func withKind(object Object) (Object, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	kind := object.DeepCopyObject().(Object)
	kind.GetObjectKind().SetGroupVersionKind(kinds[0])
	return kind, nil
}
