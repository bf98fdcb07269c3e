package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler"
)

// In a history of replicas, one to three processes run beside each other. Each has a clock of its
// own, informers with a lag of their own, and an election: the others are standbys with warm
// caches. A leader ends when it cannot renew its Lease or finds another holder, and another
// process begins in its place. Between them, and the API servers, are the faults of faults.go. Half
// of the histories are busy, and bind more pods: see busy.go.
//
// Whatever happens: no two processes certainly lead at once, a standby writes nothing, and no
// Binding of an earlier leader is committed after a later one has placed a pod.

// replica is a machine and the process on it. Histories without replicas have one.
type replica struct {
	name string
	// process numbers the processes of all replicas.
	process         int
	sched           *scheduler.Scheduler
	informers       []*informer // pods, nodes, and PodGroups where they are served
	probes          []*probe
	openGenerations int // Generations that are not closed
	// knownNow is what known returned last; nil where that has changed since.
	knownNow *knownState
	clock    *virtualClock
	// gangViews are what the process does with each gang, and lastCycle is the number of the attempt
	// that its loop has begun last.
	gangViews map[*gang]*gangView
	lastCycle int
	// reconciled is in the order of the profiles.
	reconciled []*reconciled

	// manager is nil in histories without controllers, and profileCache what its leader asks.
	manager      *processControllers
	profileCache *controllers.ProfileCache
	// election is nil in histories without replicas.
	election *election
	// api is the API server that requests go to, and seen the newest resource version of each
	// kind that any process of the replica has seen.
	api  *apiServer
	seen map[string]int
	// stopped says that no task of it runs, cutOff that nothing arrives there and from there,
	// dead that no process runs. exiting is why the process ends soon.
	stopped, cutOff, dead bool
	exiting               string
	// wakes returns the time that the monotonic clock of a stopped replica has lost.
	wakes func() time.Duration
}

func (sim *simulation) newReplica() *replica {
	r := &replica{name: "r" + itoa(len(sim.replicas)), seen: map[string]int{}}
	r.clock = &virtualClock{tasks: sim.tasks, replica: r, now: startTime}
	return r
}

// use makes r the replica whose state the fields of sim are.
func (sim *simulation) use(r *replica) {
	if r == sim.replica {
		return
	}
	sim.replica, sim.tasks.replica = r, r
	for i, state := range r.reconciled {
		sim.profiles[i].reconciled = state
	}
}

// stepTask lets a task of any replica run.
func (sim *simulation) stepTask(t *task) {
	sim.use(t.replica)
	sim.tasks.step(t)
}

// front is the replica that actions and checks are about: the newest leader, or any other that
// runs.
func (sim *simulation) front() *replica {
	best, newest := sim.replicas[0], int64(-2)
	if !sim.hasReplicas() {
		return best
	}
	for _, r := range sim.replicas {
		epoch := int64(-1)
		if !r.dead && r.election.leads {
			epoch = r.election.tracker.Epoch()
		}
		if !r.dead && !r.stopped && epoch > newest {
			best, newest = r, epoch
		}
	}
	return best
}

// hasReplicas says whether this is a history of replicas.
func (sim *simulation) hasReplicas() bool { return sim.replicated }

// startReplicas starts a process on each replica.
func (sim *simulation) startReplicas() {
	for _, r := range sim.replicas {
		sim.use(r)
		sim.startProcess()
	}
	sim.use(sim.replicas[0])
}

// logPrefix names the replica whose task runs.
func (sim *simulation) logPrefix() string {
	if !sim.hasReplicas() || sim.tasks.current == nil {
		return ""
	}
	return sim.replica.name + " "
}

// standing is the state of the leaders of a history of replicas.
type standing struct {
	lease *coordinationv1.Lease
	// newestEpoch is the newest leader's, decidedEpoch that of the newest leader that has placed a
	// pod; -1: there was none.
	newestEpoch, decidedEpoch int64
	// bindingEpoch is the epoch of the Binding that the server processes.
	bindingEpoch int64
	// fencesFail says that a leader could not fence some pods.
	fencesFail bool
}

// endProcess ends the process of a replica. What it has sent stays on the wire. Another process
// begins a few seconds later.
func (sim *simulation) endProcess(r *replica) {
	sim.use(r)
	sim.logf("the process of %s has ended", r.name)
	r.process = sim.nextProcess()
	sim.tasks.endAll(r)
	r.clock.waiters, r.probes = nil, nil
	sim.noteEndOfProcess()
	r.dead, r.exiting = true, ""
	r.election.leads = false
	sim.requests = slices.DeleteFunc(sim.requests, func(request *request) bool {
		if request.replica != r {
			return false
		}
		if !request.arrived && request.verb != "get" && request.verb != "list" {
			request.held, request.heldUntil = sim.chance(0.5), sim.steps+1000
			sim.lateWrites = append(sim.lateWrites, request)
		}
		return true
	})
	sim.outside.after(time.Duration(1+sim.random.IntN(10))*time.Second, func() { sim.startAgain(r) })
}

// startAgain starts a process on a replica, once its machine runs and is connected.
func (sim *simulation) startAgain(r *replica) {
	switch {
	case !r.dead:
	case r.stopped || r.cutOff:
		sim.outside.after(time.Second, func() { sim.startAgain(r) })
	default:
		sim.use(r)
		r.dead, r.api = false, sim.apiServers[sim.random.IntN(len(sim.apiServers))]
		sim.logf("a process begins on %s", r.name)
		sim.startProcess()
	}
}

// killReplica ends the process of a replica at once.
func (sim *simulation) killReplica(r *replica) bool {
	if r.dead || r.stopped {
		return false
	}
	sim.logf("the process of %s is killed", r.name)
	sim.count("a crash")
	sim.endProcess(r)
	return true
}

// after calls f at a later time.
func (c *virtualClock) after(d time.Duration, f func()) { c.add(c.now.Add(d), f) }

// clocks are those whose waiters may be called: those of machines that run, and the one outside.
func (sim *simulation) clocks() []*virtualClock {
	all := []*virtualClock{sim.outside}
	for _, r := range sim.replicas {
		if !r.stopped {
			all = append(all, r.clock)
		}
	}
	return all
}

// timeCanAdvance says whether anything waits for a time.
func (sim *simulation) timeCanAdvance() bool {
	if !sim.hasReplicas() {
		return len(sim.clock.waiters) > 0
	}
	return slices.ContainsFunc(sim.clocks(), func(c *virtualClock) bool { return len(c.waiters) > 0 })
}

// advance moves the time of all clocks to the next waiter, and calls all that are due.
func (sim *simulation) advance() {
	if !sim.hasReplicas() {
		sim.clock.advance()
		return
	}
	clocks := sim.clocks()
	var next time.Time
	for _, c := range clocks {
		if len(c.waiters) > 0 && (next.IsZero() || c.waiters[0].at.Before(next)) {
			next = c.waiters[0].at
		}
	}
	if next.After(sim.outside.now) {
		sim.outside.now = next
		for _, r := range sim.replicas {
			r.clock.now = next
		}
	}
	for _, c := range clocks {
		c.callDue()
	}
}

// onlyPeriodic says that nothing waits for a time but what waits again and again.
func (sim *simulation) onlyPeriodic() bool {
	if !sim.hasReplicas() {
		return sim.clock.onlyPeriodic()
	}
	return !slices.ContainsFunc(sim.clocks(), func(c *virtualClock) bool { return !c.onlyPeriodic() })
}

// blocked says that neither the request nor its response can arrive.
func (r *request) blocked() bool { return r.replica.cutOff || r.arrived && r.replica.stopped }

// someReplica returns the front in half of the cases, else any replica; nil where no process runs
// there.
func (sim *simulation) someReplica(random *rand.Rand) *replica {
	r := sim.front()
	if random.IntN(2) == 0 {
		r = sim.replicas[random.IntN(len(sim.replicas))]
	}
	if r.dead || r.stopped || r.cutOff {
		return nil
	}
	return r
}
