package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

var _ = Describe("A manager that is killed during a swap, at", func() {
	for _, step := range []string{stepTrialBuild, stepTrial, stepBeforeRevision, stepAfterRevision, stepBuild, stepPointer, stepRequeue, stepStatus, stepRelease} {
		It(step, minutes, func(ctx SpecContext) {
			env, p := newTestEnv(ctx), createProfile(ctx, neverFlush, useStepKiller, publishEvery(1))
			createNode(ctx, env.node("n"))
			expectReady(ctx, p)
			first := *p.Status.Programmed
			stopManager()
			DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })
			arm := filepath.Join(GinkgoT().TempDir(), "armed")
			killed := startManagerProcess(ctx, killStepEnv+"="+step, armedFileEnv+"="+arm)
			runs := createPod(ctx, env.pod(p, "runs"))
			Expect(boundRecord(ctx, runs).Hash).To(Equal(first.Hash))
			var wait []*v1.Pod
			for i := range 5 {
				wait = append(wait, createPod(ctx, env.pod(p, fmt.Sprint("waits-", i)).Label("stepkiller", "wait")))
			}
			expectReason(ctx, v1.PodReasonUnschedulable, wait...)
			// In the last step the old generation must not wait for a pod in PreBind.
			var inPreBind *v1.Pod
			if step != stepRelease {
				inPreBind = createPod(ctx, env.pod(p, "held").Label("stepkiller", "held"))
				Eventually(admin.NominatedNode(ctx, inPreBind)).Should(Equal(env.node("n").Obj().Name))
			}

			Expect(os.WriteFile(arm, nil, 0o600)).To(Succeed())
			editProfile(ctx, p, allowAll)
			Eventually(killed.Ended()).Should(BeClosed(), "it is killed at "+step)

			next := startManagerProcess(ctx)
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
			Expect(p.Status.Programmed.Hash).NotTo(Equal(first.Hash))
			for _, pod := range wait {
				Expect(boundRecord(ctx, pod).Hash).To(Equal(p.Status.Programmed.Hash), pod.Name)
			}
			if inPreBind != nil {
				Expect(boundRecord(ctx, inPreBind).Hash).To(Equal(p.Status.Programmed.Hash))
			}
			Expect(boundRecord(ctx, runs).Hash).To(Equal(first.Hash), "a bound pod does not change")
			Eventually(queueStatus(ctx, p)).Should(HaveValue(BeZero()), "no pod is pending")
			Expect(next.Ended()).NotTo(BeClosed())
			stopManagerProcess(ctx, next)
		})
	}
})

// useStepKiller rejects the pods with the label, and allowAll lets them pass. Both enable
// the points that a swap calls.
func useStepKiller(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{PreEnqueue: enablePlugin(stepKiller), Filter: enablePlugin(stepKiller), PreBind: enablePlugin(stepKiller)}
}

func allowAll(s *v1alpha1.SchedulingProfileSpec) {
	s.Plugins = &v1alpha1.Plugins{PreEnqueue: enablePlugin(stepKiller), PreBind: enablePlugin(stepKiller)}
}

// stepKiller kills its process at one step of a swap with SIGKILL. Its Filter rejects pods
// with the label wait, and its PreBind blocks pods with the label held until the process is
// killed. In the suite's own process it does nothing.
const stepKiller = "StepKiller"

// killStepEnv is the environment variable with the step. The process is killed there once
// the file in armedFileEnv exists.
const (
	killStepEnv  = "BERTH_INTEGRATION_KILL_STEP"
	armedFileEnv = "BERTH_INTEGRATION_ARMED"
)

// The steps of a swap, in order.
const (
	stepTrialBuild     = "the build for the trial"
	stepTrial          = "the trial"
	stepBeforeRevision = "the revision, before it is written"
	stepAfterRevision  = "the revision, after it is written"
	stepBuild          = "the build"
	stepPointer        = "the pointer, before a pod is requeued"
	stepRequeue        = "requeueing, half-way"
	stepStatus         = "the status, before it is written"
	stepRelease        = "the release of the old generation"
)

func armed() bool {
	file := os.Getenv(armedFileEnv)
	_, err := os.Stat(file)
	return file != "" && err == nil
}

// killAt kills the process if it is to be killed at this step.
func killAt(step string) {
	if os.Getenv(killStepEnv) == step && armed() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// rebuilt reports whether the plugin was built after the file was created.
var rebuilt atomic.Bool

type stepKillerPlugin struct {
	onTrial bool
	// calls counts the calls of PreEnqueue.
	calls atomic.Int32
}

var _ interface {
	fwk.PreEnqueuePlugin
	fwk.FilterPlugin
	fwk.PreBindPlugin
} = &stepKillerPlugin{}

func newStepKiller(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	on, _ := handle.(framework.TrialHandle)
	t := &stepKillerPlugin{onTrial: on != nil && on.OnTrial()}
	if t.onTrial {
		killAt(stepTrialBuild)
	} else {
		killAt(stepBuild)
		rebuilt.Store(armed())
	}
	return t, nil
}

func (*stepKillerPlugin) Name() string { return stepKiller }

// PreEnqueue is called for each pending pod when a generation with the plugin begins.
func (t *stepKillerPlugin) PreEnqueue(context.Context, *v1.Pod) *fwk.Status {
	if t.onTrial {
		killAt(stepTrial)
		return nil
	}
	switch t.calls.Add(1) {
	case 1:
		killAt(stepPointer)
	case 3:
		killAt(stepRequeue)
	}
	return nil
}

func (*stepKillerPlugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	if pod.Labels["stepkiller"] == "wait" {
		return fwk.NewStatus(fwk.Unschedulable, "the label says wait")
	}
	return nil
}

func (t *stepKillerPlugin) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (t *stepKillerPlugin) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Labels["stepkiller"] == "held" && os.Getenv(killStepEnv) != "" && !armed() {
		<-ctx.Done()
	}
	return nil
}

// Close is called when the last reference to the generation is released.
func (t *stepKillerPlugin) Close() error {
	if !t.onTrial {
		killAt(stepRelease)
	}
	return nil
}

// killAtWrites kills the process at the writes of a swap.
func killAtWrites(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return killTransport{next} })
}

type killTransport struct{ next http.RoundTripper }

func (w killTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	revision := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/controllerrevisions")
	if revision {
		killAt(stepBeforeRevision)
	}
	if rebuilt.Load() && strings.Contains(r.URL.Path, "/schedulingprofiles/") && strings.HasSuffix(r.URL.Path, "/status") {
		killAt(stepStatus)
	}
	response, err := w.next.RoundTrip(r)
	if revision && err == nil {
		killAt(stepAfterRevision)
	}
	return response, err
}
