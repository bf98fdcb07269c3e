// Package debug copies the state of the scheduler at a moment, to find out why it does
// what it does: the queue, the cache, what runs, and how it differs from the API server.
// The copies are values that are written as JSON or as text. The package reads the
// components one after another and changes nothing. Of objects it copies names and
// numbers, but no arguments, annotations or environment variables, which may be secret.
package debug

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
)

// Debugger reads the components of one scheduler.
type Debugger struct {
	Queue       *queue.Queue
	Cache       *cache.Cache
	WaitingPods *framework.WaitingPods
	Profiles    Profiles
	// BetweenCycles updates the snapshot and calls look while no scheduling cycle runs.
	// It returns an error when ctx ends first.
	BetweenCycles func(ctx context.Context, look func()) error
	// Now returns the time.
	Now func() time.Time
}

// Profiles are the running profiles; *profile.Set implements it.
type Profiles interface {
	Names() []string
	Statuses() []profile.Status
}

// updateSnapshot updates the snapshot. It returns why that is not possible, or "": a
// hung loop is when these dumps are needed most.
func (d Debugger) updateSnapshot(ctx context.Context) (stale string) {
	ctx, cancel := context.WithTimeoutCause(ctx, loopTimeout, errLoopBusy)
	defer cancel()
	if err := d.BetweenCycles(ctx, func() {}); err != nil {
		return err.Error()
	}
	return ""
}

// loopTimeout is how long to wait for the end of a scheduling cycle.
const loopTimeout = 2 * time.Second

// errLoopBusy is the cause when the loop did not finish a cycle in time.
var errLoopBusy = fmt.Errorf("waited %v", loopTimeout)

// PodRef identifies a pod.
type PodRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

func podRef(pod *v1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// String is namespace/name.
func (p PodRef) String() string { return p.Namespace + "/" + p.Name }

func comparePodRefs(a, b PodRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
