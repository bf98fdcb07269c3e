package simulation

import (
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cutReplicaOff lets nothing arrive at a replica and from there for a while. What was under way
// arrives after that, or its connection is lost.
func cutReplicaOff(sim *simulation, random *rand.Rand) bool {
	r := sim.someReplica(random)
	if r == nil {
		return false
	}
	sim.cutOff(r, time.Duration(1+random.IntN(45))*time.Second)
	return true
}

// cutOff cuts a replica off for a time.
func (sim *simulation) cutOff(r *replica, d time.Duration) {
	sim.logf("%s is cut off for %v", r.name, d)
	r.cutOff = true
	sim.outside.after(d, func() { sim.connect(r) })
}

// connect ends what cutReplicaOff did.
func (sim *simulation) connect(r *replica) {
	if !r.cutOff {
		return
	}
	sim.logf("%s is connected again", r.name)
	r.cutOff = false
	for _, request := range sim.requests {
		if request.replica == r && sim.chance(0.3) {
			sim.loseConnection(request)
		}
	}
	for _, watch := range r.informers {
		watch.connected = watch.connected && sim.chance(0.5)
	}
}

// stopProcess stops a process, as SIGSTOP does: its clocks go on.
func stopProcess(sim *simulation, random *rand.Rand) bool {
	return sim.stopFor(random, stopped, noTime)
}

const stopped = "stopped"

func noTime(time.Duration) time.Duration { return 0 }

// suspendMachine suspends a machine, as a hypervisor does: its monotonic clock stands still.
func suspendMachine(sim *simulation, random *rand.Rand) bool {
	return sim.stopFor(random, "suspended", func(d time.Duration) time.Duration { return d })
}

// stopFor stops a replica for a while. lost is the time that its monotonic clock loses.
func (sim *simulation) stopFor(random *rand.Rand, how string, lost func(time.Duration) time.Duration) bool {
	r := sim.someReplica(random)
	if r == nil {
		return false
	}
	sim.stop(r, time.Duration(1+random.IntN(45))*time.Second, how, lost)
	return true
}

// stop stops a replica for a time.
func (sim *simulation) stop(r *replica, d time.Duration, how string, lost func(time.Duration) time.Duration) {
	sim.logf("%s is %s for %v", r.name, how, d)
	r.stopped = true
	begun := sim.outside.now
	r.wakes = func() time.Duration { return lost(sim.outside.now.Sub(begun)) }
	sim.outside.after(d, func() { sim.wake(r) })
}

// wake lets a replica run on, with the state that it had.
func (sim *simulation) wake(r *replica) {
	if !r.stopped {
		return
	}
	sim.logf("%s runs on", r.name)
	r.stopped = false
	if lost := r.wakes(); lost > 0 {
		r.clock.resume(lost)
	}
	if !r.dead && r.election.leads && r.election.tracker.Epoch() < sim.newestEpoch {
		sim.count("a leader wakes up and has a successor")
	}
}

// moveWallClock lets the wall clock of one machine jump, as after a correction of its time.
func moveWallClock(sim *simulation, random *rand.Rand, direction time.Duration) bool {
	r := sim.someReplica(random)
	if r == nil {
		return false
	}
	d := time.Duration(1+random.IntN(60)) * []time.Duration{time.Second, time.Minute, time.Hour}[random.IntN(3)]
	sim.logf("the wall clock of %s jumps by %v", r.name, direction*d)
	r.clock.wall += direction * d
	return true
}

// slowWatchDown lets the watch of one kind get no event for a while.
func slowWatchDown(sim *simulation, random *rand.Rand) bool {
	r := sim.someReplica(random)
	if r == nil {
		return false
	}
	watch := r.informers[random.IntN(len(r.informers))]
	d := time.Duration(1+random.IntN(40)) * time.Second
	sim.logf("the watch of %s by %s is slow for %v", watch.name, r.name, d)
	watch.slow = true
	sim.outside.after(d, func() { watch.slow = false })
	return true
}

func cutWatch(sim *simulation, random *rand.Rand) bool {
	r := sim.someReplica(random)
	if r == nil {
		return false
	}
	watch := r.informers[random.IntN(len(r.informers))]
	if !watch.connected {
		return false
	}
	sim.logf("the watch of %s by %s is cut", watch.name, r.name)
	watch.connected = false
	return true
}

// someWatchCache returns a watch cache of one API server.
func (sim *simulation) someWatchCache(random *rand.Rand) (s *apiServer, cache *watchCache) {
	s = sim.apiServers[random.IntN(len(sim.apiServers))]
	kinds := sim.watchedKinds()
	return s, s.caches[kinds[random.IntN(len(kinds))]]
}

// stallWatchCache lets a watch cache read nothing for a while: its lists and watches are older and
// older.
func stallWatchCache(sim *simulation, random *rand.Rand) bool {
	s, cache := sim.someWatchCache(random)
	if !sim.cachesLag || cache.stalled {
		return false
	}
	d := time.Duration(1+random.IntN(60)) * time.Second
	sim.logf("the watch cache of %s at %s stalls for %v", cache.kind, s.name, d)
	cache.stalled = true
	sim.outside.after(d, func() { cache.stalled = false })
	return true
}

// forgetEvents lets a watch cache have no events of the past, as after many writes.
func forgetEvents(sim *simulation, random *rand.Rand) bool {
	s, cache := sim.someWatchCache(random)
	sim.logf("the watch cache of %s at %s forgets its events up to version %d", cache.kind, s.name, cache.version())
	cache.oldest = cache.index
	return true
}

func restartSomeAPIServer(sim *simulation, random *rand.Rand) bool {
	sim.restartAPIServer(sim.apiServers[random.IntN(len(sim.apiServers))])
	return true
}

// makePodAgain deletes a pod and creates another one of the same name at once.
func makePodAgain(sim *simulation, random *rand.Rand) bool {
	isOurs := func(pod *v1.Pod) bool { return sim.ourPods[pod.UID] != nil }
	return withPod(sim, random, isOurs, func(pod *v1.Pod) {
		sim.logf("outside: pod %s is deleted", describe(pod))
		again := sim.ourPods[pod.UID].DeepCopy()
		again.UID, again.ResourceVersion = types.UID("u"+itoa(sim.server.version)), ""
		again.Spec.NodeName, again.Status, again.DeletionTimestamp = "", v1.PodStatus{}, nil
		sim.server.dropPod(keyOf(pod))
		sim.addPod(again)
		if sim.gangOf(again) != nil {
			sim.count("a member of a gang is made again under its name")
		}
	})
}

func killSomeReplica(sim *simulation, random *rand.Rand) bool {
	r := sim.someReplica(random)
	return r != nil && sim.killReplica(r)
}

// overwriteLease lets another holder, which is no replica, hold the Lease until it expires.
func overwriteLease(sim *simulation, _ *rand.Rand) bool {
	if sim.lease == nil {
		return false
	}
	sim.logf("outside: the Lease is overwritten by another holder")
	sim.server.version++
	lease := sim.lease.DeepCopy()
	lease.Spec.HolderIdentity, lease.ResourceVersion = new("another holder"), itoa(sim.server.version)
	*lease.Spec.LeaseTransitions++
	sim.lease = lease
	return true
}
