// Package run takes a scheduler through a log, event by event, without an API
// server: one attempt a pod, from the pod to the chosen node, which counts on
// the pod from then on. What comes after that in a cluster (Reserve, Permit,
// binding, the condition) does not happen.
package run

import (
	"errors"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// Scheduler is what a log is run through: Berth, or what it is measured
// against. It is told of changes as an informer's handlers are: the version
// known before, nil for a new object, and the version after.
type Scheduler interface {
	SetNode(before, after *v1.Node)
	RemoveNode(last *v1.Node)
	// SetPod tells of a pod that has a node, or of one that has none and may
	// be nominated for one.
	SetPod(before, after *v1.Pod) error
	RemovePod(last *v1.Pod) error
	// SetObject and RemoveObject tell of any other object. The error says that
	// nothing in scheduling reads its kind.
	SetObject(object runtime.Object) error
	RemoveObject(object runtime.Object) error

	// Refresh lets the changes so far take effect, as Attempt does first.
	UpdateSnapshot() error
	// Attempt looks for a node. The Outcome says if it failed, and why.
	Attempt(pod *v1.Pod) *Outcome
	// Assume counts the pod of the last Attempt in on node.
	Assume(pod *v1.Pod, node string) error
}

// Starter is a Scheduler whose next walk over the nodes can be told where to
// start.
type Starter interface {
	StartAt(index int)
}

// Run takes s through the ops that next returns until its error, which is
// io.EOF at the end, and hands each outcome to each.
func Run(s Scheduler, next func() (log.Op, error), each func(*Outcome) error) error {
	world := NewWorld(s)
	for {
		op, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		outcome, err := world.Do(op)
		if err != nil {
			return err
		}
		if outcome == nil {
			continue
		}
		if err := each(outcome); err != nil {
			return err
		}
	}
}
