package log

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reader reads a log op by op. Ops share no memory: each pod of a batch is decoded by
// itself, as an informer does.
type Reader struct {
	lines *bufio.Reader
	line  int
	batch batch
}

// batch is the rest of a schedule-batch.
type batch struct {
	text       json.RawMessage
	next, size int
}

// entry is the JSON of a line.
type entry struct {
	Op     Kind            `json:"op"`
	Count  *int            `json:"count,omitempty"`
	Start  *int            `json:"start,omitempty"`
	Object json.RawMessage `json:"object"`
}

// NewReader returns a Reader that begins at the first line of r.
func NewReader(r io.Reader) *Reader { return &Reader{lines: bufio.NewReaderSize(r, 1<<16)} }

// Next returns the next op, or io.EOF after the last. Any other error is an *Error or an
// error of the file. Blank lines are skipped.
func (r *Reader) Next() (Op, error) {
	if r.batch.next < r.batch.size {
		return r.nextCopy()
	}
	for {
		text, err := r.lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return Op{}, fmt.Errorf("after line %d: %w", r.line, err)
		}
		r.line++
		if len(bytes.TrimSpace(text)) > 0 {
			return r.parse(text)
		}
		if err != nil {
			return Op{}, io.EOF
		}
	}
}

// maxStart is more than the index of any node of a cluster.
const maxStart = math.MaxInt32

// IsStart reports whether a number can be the index of the node at which an attempt starts.
func IsStart(index int) bool { return index >= 0 && index <= maxStart }

func (r *Reader) parse(text []byte) (Op, error) {
	var e entry
	if fieldErr := decodeStrict(text, &e); fieldErr != nil {
		return Op{}, &Error{Line: r.line, Field: fieldErr.path, Detail: fieldErr.detail}
	}
	if len(e.Object) == 0 {
		return Op{}, &Error{Line: r.line, Field: "object", Detail: "is missing"}
	}
	switch {
	case e.Start != nil && e.Op != Schedule:
		return Op{}, &Error{Line: r.line, Field: "start", Detail: fmt.Sprintf("belongs to %s only", Schedule)}
	case e.Start != nil && !IsStart(*e.Start):
		return Op{}, &Error{Line: r.line, Field: "start", Detail: fmt.Sprintf("must be from 0 to %d, is %d", maxStart, *e.Start)}
	case e.Op == ScheduleBatch && e.Count == nil:
		return Op{}, &Error{Line: r.line, Field: "count", Detail: "is missing: say how many copies"}
	case e.Op == ScheduleBatch && *e.Count < 1:
		return Op{}, &Error{Line: r.line, Field: "count", Detail: fmt.Sprintf("must be at least 1, is %d", *e.Count)}
	case e.Op == ScheduleBatch:
		r.batch = batch{text: e.Object, size: *e.Count}
		return r.nextCopy()
	case e.Op != Apply && e.Op != Delete && e.Op != Schedule:
		return Op{}, &Error{Line: r.line, Field: "op",
			Detail: fmt.Sprintf("must be %s, %s, %s or %s, is %q", Apply, Delete, Schedule, ScheduleBatch, e.Op)}
	case e.Count != nil:
		return Op{}, &Error{Line: r.line, Field: "count", Detail: fmt.Sprintf("belongs to %s only", ScheduleBatch)}
	}
	op, err := r.op(e.Op, e.Object)
	op.Start = e.Start
	return op, err
}

// nextCopy returns the next pod of a batch.
func (r *Reader) nextCopy() (Op, error) {
	op, err := r.op(Schedule, r.batch.text)
	if err != nil {
		return op, err
	}
	pod := op.Object.(*v1.Pod)
	suffix := fmt.Sprintf("-%d", r.batch.next)
	r.batch.next++
	pod.Name += suffix
	pod.UID += types.UID(suffix)
	return op, nil
}

func (r *Reader) op(kind Kind, text json.RawMessage) (Op, error) {
	object, fieldErr := decodeObject(kind, text)
	if fieldErr != nil {
		return Op{}, &Error{Line: r.line, Field: fieldErr.path, Detail: fieldErr.detail}
	}
	return Op{Line: r.line, Kind: kind, Object: object}, nil
}
