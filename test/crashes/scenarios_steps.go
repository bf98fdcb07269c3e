package crashes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Scenarios whose processes have the plugin Stepper.

// step is a step at which a process is held, and killed.
type step struct {
	name string
	// fails is a step that fails meanwhile, so that this one is reached; may be empty.
	fails string
	// then is called when the process is held, before it is killed; may be nil.
	then func(context.Context, *env) error
}

// podSteps are those of a pod, in their order.
var podSteps = []step{
	{name: "PreEnqueue"}, {name: "PreFilter"}, {name: "Filter"}, {name: "PreScore"}, {name: "Score"}, {name: "NormalizeScore"},
	{name: "Reserve"}, {name: "PreBindPreFlight"}, {name: "Permit"}, {name: stepPermitWait}, {name: "PreBind"}, {name: "Unreserve", fails: "PreBind"},
	{name: "Bind"}, {name: "PostBind"},
}

// swapSteps are those of a swap while a pod of the earlier generation is in PreBind.
var swapSteps = []step{
	{name: stepTrialBuild}, {name: stepBuild}, {name: "EventsToRegister"}, {name: "Close"}, {name: stepDrain, then: swapNow},
}

// preemptionSteps are those of a preemption.
var preemptionSteps = []step{{name: "PostFilter"}, {name: "RemovePod"}, {name: "AddPod"}}

// useStepper enables Stepper at all its extension points.
func useStepper(s *v1alpha1.SchedulingProfileSpec) {
	enabled := func(names ...string) (set v1alpha1.PluginSet) {
		for _, name := range names {
			set.Enabled = append(set.Enabled, v1alpha1.EnabledPlugin{Name: name})
		}
		return set
	}
	// Before the plugins that bind or preempt: those after them are not called.
	first := func(other string) v1alpha1.PluginSet {
		set := enabled(stepperName, other)
		set.Disabled = []v1alpha1.DisabledPlugin{{Name: other}}
		return set
	}
	s.Plugins = &v1alpha1.Plugins{MultiPoint: enabled(stepperName), PostFilter: first("DefaultPreemption"), Bind: first("DefaultBinder")}
}

func prepareSteps(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj(), e.node("n1", 4).Obj()); err != nil {
		return err
	}
	return e.startProfile(ctx, useStepper)
}

func actSteps(ctx context.Context, e *env) error { return actBinds(ctx, e) }

// actSwapSteps creates pods, and swaps while they are being bound.
func actSwapSteps(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, e.pod("web-0", 2), e.pod("web-1", 2)); err != nil {
		return err
	}
	if err := e.apply(ctx, useStepper, share(60)); err != nil {
		return err
	}
	if err := e.runs(ctx); err != nil {
		return err
	}
	return e.bound(ctx, "web-0", "web-1")
}

// swapNow waits until the next spec runs.
func swapNow(ctx context.Context, e *env) error { return e.runs(ctx) }

// prepareStepPreemption fills the first node, of which a pod needs half.
func prepareStepPreemption(ctx context.Context, e *env) error {
	if err := e.create(ctx, e.node("n0", 4).Obj()); err != nil {
		return err
	}
	if err := e.startProfile(ctx, useStepper); err != nil {
		return err
	}
	return e.fill(ctx, 2, 2)
}

func actStepPreemption(ctx context.Context, e *env) error {
	if err := e.createPods(ctx, prioritized(e.pod("important", 2), high)); err != nil {
		return err
	}
	return e.bound(ctx, "important")
}

// prepareBuildFails runs a profile that refuses two pods, and lets the next build fail.
func prepareBuildFails(ctx context.Context, e *env) error {
	if err := prepareSwap(ctx, e); err != nil {
		return err
	}
	return e.letFail(stepBuild)
}

// actBuildFails applies a spec whose plugin cannot be built, and then lets the spec that runs
// bind the pods.
func actBuildFails(ctx context.Context, e *env) error {
	if err := e.apply(ctx, useStepper, e.exports); err != nil {
		return err
	}
	if err := e.specRefused(ctx, v1alpha1.ConditionProgrammed); err != nil {
		return err
	}
	label := []byte(`{"metadata":{"labels":{"pool":"chosen"}}}`)
	if _, err := e.cp.Client().CoreV1().Nodes().Patch(ctx, e.id+"-n0", mergePatch, label, patchOptions); err != nil {
		return err
	}
	return e.boundByRunning(ctx, "web-0", "web-1")
}

// letFail lets a step fail until clearSteps.
func (e *env) letFail(step string) error {
	return os.WriteFile(filepath.Join(e.steps, step+fail), nil, 0o600)
}

// holdAt lets the process that comes to a step first wait there.
func (e *env) holdAt(s step) error {
	if s.fails != "" {
		if err := e.letFail(s.fails); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(e.steps, s.name), []byte(e.id), 0o600)
}

// heldAt returns the replica whose process is held at a step; nil while none is.
func (e *env) heldAt(s step) (*replica, error) {
	text, err := os.ReadFile(filepath.Join(e.steps, s.name+reached))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	for _, r := range e.alive() {
		if r.manager.Load().PID() == pid {
			return r, nil
		}
	}
	return nil, fmt.Errorf("process %d was held at %s, and no replica has this id", pid, s.name)
}

// clearSteps removes all files of steps.
func (s *Suite) clearSteps() error {
	files, err := filepath.Glob(filepath.Join(s.steps, "*"))
	errs := []error{err}
	for _, file := range files {
		errs = append(errs, os.Remove(file))
	}
	return errors.Join(errs...)
}
