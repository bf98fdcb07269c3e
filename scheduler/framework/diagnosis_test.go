package framework

import (
	"fmt"
	"sync"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

// A PostFilter plugin may look at nodes in several goroutines. The race detector sees a write.
func TestStatusesOfNodesAreReadConcurrently(t *testing.T) {
	statuses := NewNodeToStatus()
	for i := range 100 {
		statuses.Set(fmt.Sprint("n", i), fwk.NewStatus(fwk.Unschedulable, fmt.Sprint("reason ", i)))
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := range 100 {
				if got, want := statuses.Get(fmt.Sprint("n", i)).Message(), fmt.Sprint("reason ", i); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	readers.Wait()
}
