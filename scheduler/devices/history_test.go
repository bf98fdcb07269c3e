package devices_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

const historyClaims, historyDevices = 6, 4

// history is a random history of claims that compete for devices, as a plugin allocates
// them, with failing writes and delayed events.
type history struct {
	*testEnv
	random *rand.Rand
	// inFlight are the devices by claim that are allocated and not bound.
	inFlight map[string]string
}

// In random histories no device is given to two claims, an allocation in flight keeps its
// device, and a device that no claim holds is free.
func TestNoDeviceIsGivenToTwoClaims(t *testing.T) {
	var objects []runtime.Object
	for i := range historyClaims {
		objects = append(objects, fixture.ResourceClaim(fmt.Sprint("c", i)).Request("r", "gpu").Obj())
	}
	for seed := range uint64(40) {
		runInVirtualTime(t, func(env *testEnv) {
			h := &history{env, rand.New(rand.NewPCG(seed, 1)), map[string]string{}}
			for step := range 60 {
				what := h.step()
				h.check(fmt.Sprintf("seed %d, step %d (%s)", seed, step, what))
			}
			env.gate.open()
			for name := range h.inFlight {
				env.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf(name), true)
				env.ResourceClaims().AssumedClaimRestore("default", name)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			env.want(fmt.Sprintf("seed %d: devices in the end", seed), env.devices(), h.storedDevices())
		}, objects...)
	}
}

// step makes one change, and says which.
func (h *history) step() string {
	name := fmt.Sprint("c", h.random.IntN(historyClaims))
	claim := h.claim(name)
	switch h.random.IntN(8) {
	case 0:
		h.gate.close()
		return "events are delayed"
	case 1:
		h.gate.open()
		synctest.Wait()
		return "events are delivered"
	case 2:
		h.replaceClaim(name, func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"x": fmt.Sprint(h.random.Int())} })
		return "another client labels " + name
	case 3:
		if h.inFlight[name] == "" && claim.Status.Allocation != nil {
			h.injectFault()
			h.DeallocateClaim(claim)
			time.Sleep(time.Second)
			return "deallocate " + name
		}
	case 4:
		if h.inFlight[name] != "" {
			h.fail(name)
			return "give up " + name
		}
	}
	if h.inFlight[name] == "" && claim.Status.Allocation == nil {
		return h.allocate(name)
	}
	if h.inFlight[name] != "" {
		return h.bindInFlight(name)
	}
	return "nothing"
}

// allocate takes a free device for a claim.
func (h *history) allocate(name string) string {
	taken := h.devices()
	for i := range historyDevices {
		if device := fmt.Sprint("d", i); !slices.Contains(taken, device) {
			h.signal(name, device)
			if h.ResourceClaims().GetPendingAllocation(uidOf(name)) == nil {
				return name + " was allocated meanwhile"
			}
			h.inFlight[name] = device
			return "allocate " + device + " for " + name
		}
	}
	return "no device for " + name
}

// bindInFlight writes an allocation. The write may fail, before or after it is stored.
func (h *history) bindInFlight(name string) string {
	what := "bind " + name + h.injectFault()
	_, err := h.bind(name, "pod", h.inFlight[name])
	h.cluster.ClearFaults()
	if err != nil {
		h.fail(name)
		return what + ": " + err.Error()
	}
	h.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf(name), true)
	delete(h.inFlight, name)
	return what
}

// fail does what a plugin does in Unreserve.
func (h *history) fail(name string) {
	if h.ResourceClaims().MaybeRemoveClaimPendingAllocation(uidOf(name), false) {
		h.ResourceClaims().AssumedClaimRestore("default", name)
	}
	delete(h.inFlight, name)
}

func (h *history) injectFault() string {
	verb := []string{"updateclaim", "updateclaimstatus", "getclaim"}[h.random.IntN(3)]
	conflict := apierrors.NewConflict(v1.Resource("resourceclaims"), "c", errRefused)
	switch h.random.IntN(5) {
	case 0:
		h.cluster.Inject(fakecluster.Fault{Verb: verb, Err: errRefused})
		return ", " + verb + " fails"
	case 1:
		h.cluster.Inject(fakecluster.Fault{Verb: verb, Err: errRefused, Committed: true})
		return ", " + verb + " is stored and fails"
	case 2:
		h.cluster.Inject(fakecluster.Fault{Verb: verb, Err: conflict, Times: 1 + h.random.IntN(6)})
		return ", " + verb + " conflicts"
	}
	return ""
}

// storedDevices returns the devices that claims hold in the API server.
func (h *history) storedDevices() []string {
	devices := []string{}
	for _, claim := range h.cluster.ResourceClaims() {
		if claim.Status.Allocation != nil {
			devices = append(devices, claim.Status.Allocation.Devices.Results[0].Device)
		}
	}
	slices.Sort(devices)
	return devices
}

func (h *history) check(when string) {
	h.t.Helper()
	stored := h.storedDevices()
	if len(slices.Compact(slices.Clone(stored))) != len(stored) {
		h.t.Fatalf("%s: two claims hold a device: %v", when, stored)
	}
	held := h.devices()
	for name, device := range h.inFlight {
		if !slices.Contains(held, device) {
			h.t.Fatalf("%s: %s, in flight for %s, is free: %v", when, device, name, held)
		}
		if h.ResourceClaims().GetPendingAllocation(uidOf(name)) == nil {
			h.t.Fatalf("%s: the allocation of %s is not in flight any more", when, name)
		}
	}
	for _, device := range stored {
		if !slices.Contains(held, device) {
			h.t.Fatalf("%s: %s is free, and a claim holds it: %v", when, device, held)
		}
	}
}
