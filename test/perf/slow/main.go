// Command slow is Berth with one plugin more, Slow, whose PreFilter takes 20 ms of the loop.
// It shows what a slow profile costs the others. It sleeps, since on few cores a busy one
// would take them from the API server as well.
package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/scheduler/plugins"
)

// delay is how long PreFilter takes.
const delay = 20 * time.Millisecond

type slow struct{}

var _ fwk.PreFilterPlugin = slow{}

func (slow) Name() string { return "Slow" }

func (slow) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	time.Sleep(delay)
	return nil, nil
}

func (slow) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func main() {
	operator.Main(plugins.Register("Slow",
		func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return slow{}, nil }, slow{}, nil, plugins.ReadsTrimmedPods()))
}
