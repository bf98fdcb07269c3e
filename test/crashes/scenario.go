package crashes

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scenario is something that a manager does.
type scenario struct {
	name string
	// prepare creates what is there before. The writes that it causes do not count.
	prepare func(context.Context, *env) error
	// act causes the writes, and returns when the manager has done what it should. It must not
	// depend on one process: the manager may be killed at any moment, and another one goes on.
	act func(context.Context, *env) error
	// also are texts in requests that belong to the scenario although they do not name it.
	also []string
	// refuses selects writes of which the first ones are not sent on, as refusal says.
	refuses func(request) bool
	refusal refusalOf
	// victims is how many pods the manager has to evict. moreVictims is how many more it may
	// evict after a crash: the members of a group that an earlier process nominated count twice
	// while victims are reprieved, in kube-scheduler as well (podgrouppreemption.go,
	// reprieveVictim).
	victims, moreVictims int
	// expect checks the end, beside what is checked of every scenario; may be nil.
	expect func(context.Context, *env) error
	// specRefused says that the profile's newest spec is refused in the end.
	specRefused bool
	// plugins says that the processes are the suite's own binary, with Stepper.
	plugins bool
	// steps are the steps at which Stepper holds the process. Such a scenario has no cells of
	// writes.
	steps []step
	// cleanup restores what the scenario changed beside its own objects; may be nil.
	cleanup func(context.Context, *env) error
}

// refusalOf is the response to writes that the proxy refuses, and to how many of them.
type refusalOf struct {
	code   int
	reason metav1.StatusReason
	times  int
}

var (
	forbiddenOnce = refusalOf{http.StatusForbidden, metav1.StatusReasonForbidden, 1}
	// failsSixTimes is how often a Binding is sent in one attempt.
	failsSixTimes = refusalOf{http.StatusInternalServerError, metav1.StatusReasonInternalError, 6}
)

// then returns a function that calls others one after the other, until one fails.
func then(all ...func(context.Context, *env) error) func(context.Context, *env) error {
	return func(ctx context.Context, e *env) error {
		for _, do := range all {
			if err := do(ctx, e); err != nil {
				return err
			}
		}
		return nil
	}
}

// nothing does nothing.
func nothing(context.Context, *env) error { return nil }

// allScenarios are the scenarios in the order in which they run.
var allScenarios = []*scenario{
	{name: binds, prepare: prepareBinds, act: actBinds},
	{name: givenUp, prepare: prepareBinds, act: actBinds, refuses: isBindingOfFirst, refusal: failsSixTimes},
	{name: refusal, prepare: prepareRefusal, act: actRefusal, also: []string{journalName}},
	{name: repeats, prepare: prepareRepeats, act: actRepeats},
	{name: preemption, prepare: preparePreemption, act: actPreemption, victims: 2},
	{name: volumes, prepare: prepareVolumes, act: actVolumes, expect: expectVolumes},
	{name: devices, prepare: prepareDevices, act: actDevices},
	{name: devicesReturned, prepare: prepareDevices, act: actDevices, refuses: isBinding, refusal: forbiddenOnce},
	{name: devicesReserved, prepare: prepareNodesWithDevices, act: actReservedDevices},
	{name: devicesDeallocated, prepare: prepareDeallocation, act: actDeallocation},
	{name: groups, prepare: prepareGroups, act: actGroups, expect: expectGroups},
	// As kube-scheduler does, a group that was nominated by an earlier process counts twice: its
	// pods on the nodes of the plan, and their nominations. Then no victim is spared.
	{name: groupPreemption, prepare: prepareGroupPreemption, act: actGroupPreemption, victims: 3, moreVictims: 1},
	{name: profileStarts, prepare: nothing, act: actProfileStarts},
	{name: swapAccepted, prepare: prepareSwap, act: actSwapAccepted},
	{name: swapRefused, prepare: prepareSwap, act: actSwapRefused, specRefused: true},
	{name: rollback, prepare: prepareRollback, act: actRollback},
	{name: manySwaps, prepare: prepareManySwaps, act: actManySwaps},
	{name: profileReturns, prepare: prepareProfileReturns, act: actProfileReturns},
	{name: pause, prepare: prepareSwap, act: actPause},
	{name: firstProfile, prepare: prepareFirstProfile, act: actFirstProfile, also: []string{defaultProfile}, cleanup: restoreKeeper},
	{name: handover, prepare: prepareHandover, act: actHandover, also: []string{"berth-manager", journalName}},
	{name: leaderEnds, prepare: prepareHandover, act: actLeaderEnds, also: []string{"berth-manager", journalName}},
	{name: firstLeader, prepare: prepareFirstLeader, act: actFirstLeader, also: []string{"berth-manager", journalName}},
	{name: buildFails, prepare: prepareBuildFails, act: actBuildFails, specRefused: true, plugins: true},
	{name: stepsOfPod, prepare: prepareSteps, act: actSteps, plugins: true, steps: podSteps},
	{name: stepsOfSwap, prepare: prepareSteps, act: actSwapSteps, plugins: true, steps: swapSteps},
	{name: stepsOfPreemption, prepare: prepareStepPreemption, act: actStepPreemption, victims: 1, plugins: true, steps: preemptionSteps},
}

// scenarioOf returns the scenario of that name.
func scenarioOf(name string) (*scenario, error) {
	for _, s := range allScenarios {
		if s.name == name {
			return s, nil
		}
	}
	return nil, errors.New("there is no scenario " + name)
}

// The names of the scenarios.
const (
	binds              = "pods are bound"
	givenUp            = "a Binding is given up"
	refusal            = "a pod is refused, and bound later"
	repeats            = "a pod is refused repeatedly"
	preemption         = "a pod preempts two others"
	volumes            = "pods with volumes are bound"
	devices            = "a pod gets devices"
	devicesReturned    = "a Binding is refused, and the devices of its pod are returned"
	devicesReserved    = "a claim is reserved for its pod by an earlier attempt"
	devicesDeallocated = "a claim is deallocated, and allocated on another node"
	groups             = "a group is bound"
	groupPreemption    = "a group preempts"
	profileStarts      = "a profile starts"
	swapAccepted       = "a swap is accepted"
	swapRefused        = "a spec is refused"
	rollback           = "a profile is rolled back"
	manySwaps          = "more revisions than are kept"
	profileReturns     = "a profile is deleted, and created again"
	pause              = "a profile is paused, and active again"
	firstProfile       = "the first profile is created"
	handover           = "a leader takes over"
	leaderEnds         = "a leader ends by itself"
	firstLeader        = "the first leader"
	buildFails         = "a build fails"
	stepsOfPod         = "the steps of a pod"
	stepsOfSwap        = "the steps of a swap"
	stepsOfPreemption  = "the steps of a preemption"
)
