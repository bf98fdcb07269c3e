package crashes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// stepperName is the name of Stepper in profiles.
const stepperName = "Stepper"

// stepsVariable is the environment variable with the folder by which a test and Stepper
// communicate. A test creates a file with the name of a step; its content is the namespace of
// the pods at which the process is held. A process that reaches the step renames the file to
// NAME.reached, writes its process id into it, and stays there until it is killed.
const stepsVariable = "BERTH_CRASHES_STEPS"

// The steps at which Stepper holds the process, beside those that are named like the methods
// of plugins.
const (
	stepTrialBuild = "New, for the trial"
	stepBuild      = "New"
	stepPermitWait = "while a pod waits on Permit"
	stepDrain      = "while a pod in PreBind keeps the old generation"
)

// fail is the suffix of a file that makes a step fail.
const fail = ".fail"

// Register returns the registration of Stepper.
func Register() framework.Registration {
	return plugins.Register(stepperName, newStepper, &stepper{}, nil, plugins.ReadsTrimmedPods())
}

// registerIdle returns the registration of a Stepper that holds nothing: that of the checker's
// sandbox, which is in the suite's own process.
func registerIdle() framework.Registration {
	build := func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return &stepper{onTrial: true}, nil
	}
	return plugins.Register(stepperName, build, &stepper{}, nil, plugins.ReadsTrimmedPods())
}

// stepper is a plugin that can hold its process at every extension point but QueueSort, of
// which a profile has one plugin.
type stepper struct{ onTrial bool }

var _ interface {
	fwk.PreEnqueuePlugin
	fwk.EnqueueExtensions
	fwk.PreFilterPlugin
	fwk.PreFilterExtensions
	fwk.FilterPlugin
	fwk.PostFilterPlugin
	fwk.PreScorePlugin
	fwk.ScorePlugin
	fwk.ScoreExtensions
	fwk.ReservePlugin
	fwk.PermitPlugin
	fwk.PreBindPlugin
	fwk.BindPlugin
	fwk.PostBindPlugin
} = &stepper{}

func newStepper(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	trial, _ := handle.(framework.TrialHandle)
	s := &stepper{onTrial: trial != nil && trial.OnTrial()}
	step := stepBuild
	if s.onTrial {
		step = stepTrialBuild
	}
	hold(step, "")
	if fails(stepBuild) {
		return nil, errors.New("the test lets the build fail")
	}
	return s, nil
}

// hold holds the process if a test wants it held at the step, at a pod of the namespace; "" for
// a step that has no pod.
func hold(step, namespace string) {
	path := filepath.Join(os.Getenv(stepsVariable), step)
	text, err := os.ReadFile(path)
	if err != nil || namespace != "" && namespace != string(text) {
		return
	}
	claimed := path + ".claimed"
	if os.Rename(path, claimed) != nil {
		return // another goroutine is held there
	}
	if err := os.WriteFile(claimed, fmt.Append(nil, os.Getpid()), 0o600); err == nil {
		_ = os.Rename(claimed, path+reached) // the test reports a step that is not reached
	}
	select {}
}

// reached is the suffix of the file of a step that a process has reached.
const reached = ".reached"

// fails reports whether a test lets a step fail.
func fails(step string) bool {
	_, err := os.Stat(filepath.Join(os.Getenv(stepsVariable), step+fail))
	return err == nil
}

// at holds the process at a step of a pod, unless the plugin is on trial.
func (s *stepper) at(step string, pod *v1.Pod) {
	if !s.onTrial {
		hold(step, pod.Namespace)
	}
}

func (*stepper) Name() string { return stepperName }

func (s *stepper) Close() error {
	if !s.onTrial {
		hold("Close", "")
	}
	return nil
}

func (s *stepper) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	if !s.onTrial {
		hold("EventsToRegister", "")
	}
	return nil, nil
}

func (s *stepper) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	s.at("PreEnqueue", pod)
	return nil
}

func (s *stepper) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s.at("PreFilter", pod)
	return nil, nil
}

func (s *stepper) PreFilterExtensions() fwk.PreFilterExtensions { return s }

func (s *stepper) AddPod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	s.at("AddPod", pod)
	return nil
}

func (s *stepper) RemovePod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	s.at("RemovePod", pod)
	return nil
}

func (s *stepper) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	s.at("Filter", pod)
	return nil
}

func (s *stepper) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s.at("PostFilter", pod)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (s *stepper) PreScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	s.at("PreScore", pod)
	return nil
}

func (s *stepper) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) (int64, *fwk.Status) {
	s.at("Score", pod)
	return 0, nil
}

func (s *stepper) ScoreExtensions() fwk.ScoreExtensions { return s }

func (s *stepper) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeScoreList) *fwk.Status {
	s.at("NormalizeScore", pod)
	return nil
}

func (s *stepper) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	s.at("Reserve", pod)
	return nil
}

func (s *stepper) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.at("Unreserve", pod)
}

// Permit lets a pod wait where the test wants the process held meanwhile.
func (s *stepper) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	s.at("Permit", pod)
	if _, err := os.Stat(filepath.Join(os.Getenv(stepsVariable), stepPermitWait)); err != nil || s.onTrial {
		return nil, 0
	}
	go s.at(stepPermitWait, pod)
	return fwk.NewStatus(fwk.Wait), time.Minute
}

func (s *stepper) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	s.at("PreBindPreFlight", pod)
	return nil, nil
}

func (s *stepper) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	s.at("PreBind", pod)
	s.at(stepDrain, pod)
	if !s.onTrial && fails("PreBind") {
		return fwk.NewStatus(fwk.Unschedulable, "the test lets PreBind fail")
	}
	return nil
}

func (s *stepper) Bind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	s.at("Bind", pod)
	return fwk.NewStatus(fwk.Skip)
}

func (s *stepper) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	s.at("PostBind", pod)
}
