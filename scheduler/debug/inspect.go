// Package inspect is what the house has in mind at a moment, for whoever has to
// find out why it does what it does: copies, as values that are written as JSON
// and as text, and what differs from what the API server has. It reads the rooms
// piece by piece and changes nothing. Of objects it copies names and numbers, and
// no arguments, annotations or environment: what is secret is not in it.
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

// Rooms are what is looked into.
type Debugger struct {
	Queue       *queue.Queue
	Cache       *cache.Cache
	WaitingPods *framework.WaitingPods
	Profiles    Profiles
	// Between brings the snapshot up to date and calls look while the loop is at no
	// pod; it fails when ctx ends first.
	BetweenCycles func(ctx context.Context, look func()) error
	// Now is the time.
	Now func() time.Time
}

// Profiles are the profiles that run; *profile.Set is the one that counts.
type Profiles interface {
	Names() []string
	Statuses() []profile.Status
}

// fresh brings the snapshot up to date. It says why that is not possible: a loop
// that hangs is when somebody looks.
func (r Debugger) updateSnapshot(ctx context.Context) (stale string) {
	ctx, cancel := context.WithTimeoutCause(ctx, loopTimeout, errLoopBusy)
	defer cancel()
	if err := r.BetweenCycles(ctx, func() {}); err != nil {
		return err.Error()
	}
	return ""
}

// patience is how long the loop is waited for.
const loopTimeout = 2 * time.Second

// errBusy is why nobody waits for it any longer.
var errLoopBusy = fmt.Errorf("waited %v", loopTimeout)

// Pod names a pod.
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
