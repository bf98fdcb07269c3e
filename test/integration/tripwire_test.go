package integration

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Tripwire kills its process at one step of a swap, as kill -9 would: nothing
// is flushed, undone or said. Of a generation that it stands in the Filter of,
// it lets no pod pass that is labelled with its name; at PreBind, where it is
// armed, it keeps those until the process dies. In the process of the suite it
// is a dud.
const tripwire = "Tripwire"

// tripAt names, in a manager of a process of its own, the step that kills it;
// armedBy the file whose existence arms it.
const (
	tripAt  = "BERTH_INTEGRATION_TRIP"
	armedBy = "BERTH_INTEGRATION_ARMED"
)

// The steps of a swap, in their order.
const (
	onTrialBuild  = "the build on trial"
	onTrial       = "the trial"
	beforeWriting = "the revision, before it is written"
	afterWriting  = "the revision, after it was written"
	atBuild       = "the build"
	atPointer     = "the pointer, before any pod is adopted"
	atAdoption    = "the adoption, half-way"
	atTelling     = "the status, before it is written"
	atRelease     = "the release of the old one"
)

func armed() bool {
	file := os.Getenv(armedBy)
	_, err := os.Stat(file)
	return file != "" && err == nil
}

// trip does not return when the process was to die at this step.
func trip(step string) {
	if os.Getenv(tripAt) == step && armed() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// rebuilt says that what is to run was built since the wire was armed.
var rebuilt atomic.Bool

type tripwirePlugin struct {
	onTrial bool
	// asked is how many pods it let into the queue.
	asked atomic.Int32
}

var _ interface {
	fwk.PreEnqueuePlugin
	fwk.FilterPlugin
	fwk.PreBindPlugin
} = &tripwirePlugin{}

func newTripwire(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	on, _ := handle.(framework.TrialHandle)
	t := &tripwirePlugin{onTrial: on != nil && on.OnTrial()}
	if t.onTrial {
		trip(onTrialBuild)
	} else {
		trip(atBuild)
		rebuilt.Store(armed())
	}
	return t, nil
}

func (*tripwirePlugin) Name() string { return tripwire }

// PreEnqueue is asked of each pod that waits when a generation with it comes.
func (t *tripwirePlugin) PreEnqueue(context.Context, *v1.Pod) *fwk.Status {
	if t.onTrial {
		trip(onTrial)
		return nil
	}
	switch t.asked.Add(1) {
	case 1:
		trip(atPointer)
	case 3:
		trip(atAdoption)
	}
	return nil
}

func (*tripwirePlugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if pod.Labels["tripwire"] == "waits" {
		return fwk.NewStatus(fwk.Unschedulable, "behind the wire")
	}
	return nil
}

func (t *tripwirePlugin) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (t *tripwirePlugin) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Labels["tripwire"] == "held" && os.Getenv(tripAt) != "" && !armed() {
		<-ctx.Done()
	}
	return nil
}

// Close is called when nothing is decided by its generation any more.
func (t *tripwirePlugin) Close() error {
	if !t.onTrial {
		trip(atRelease)
	}
	return nil
}

// tripping kills the process at the writes of a swap.
func tripping(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return wire{next} })
}

type wire struct{ next http.RoundTripper }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	revision := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/controllerrevisions")
	if revision {
		trip(beforeWriting)
	}
	if rebuilt.Load() && strings.Contains(r.URL.Path, "/schedulingprofiles/") && strings.HasSuffix(r.URL.Path, "/status") {
		trip(atTelling)
	}
	response, err := w.next.RoundTrip(r)
	if revision && err == nil {
		trip(afterWriting)
	}
	return response, err
}
