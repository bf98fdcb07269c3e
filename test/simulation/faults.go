package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// faults is the state of a history of replicas beside that of each replica. Which faults it has
// is drawn from the seed.
type faults struct {
	standing
	// replicated says that this is a history of replicas.
	replicated bool
	// outside is the clock of what happens outside the replicas: all that ends by itself.
	outside    *virtualClock
	apiServers []*apiServer
	// cachesLag says that watch caches lag behind etcd, watchLists that the first list of an
	// informer comes by a watch, and bookmarks that watches get bookmarks.
	cachesLag, watchLists, bookmarks bool
	// quietTime is how much more often time advances where nothing else happens.
	quietTime int
}

// faultSet are faults that are left out of a history, to make one that fails readable.
type faultSet uint

const (
	withoutPluginFaults faultSet = 1 << iota
	withoutRequestFaults
	withoutLaggingCaches
	withoutFaultActions
	withoutStandbys
	allFaults = iota
)

// String names what is left out.
func (f faultSet) String() string {
	var names []string
	for i, name := range []string{"faults of plugins", "faults of requests", "watch caches that lag", "faults of machines and networks", "standbys"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// moreOutcomes are outcomes of requests that only histories of replicas have. A response with
// status 429 or 5xx and the header Retry-After is not what the caller gets: client-go sends the
// request again.
var moreOutcomes = []outcome{
	{name: "is answered with 429 and Retry-After", err: apierrors.NewTooManyRequests("later", 1), retryAfter: true},
	{name: "is committed, and times out in the server with Retry-After", commits: true, err: apierrors.NewServerTimeout(podResource, "update", 1), retryAfter: true, writesOnly: true},
	{name: "is answered with 422", err: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "", nil), writesOnly: true},
}

// faultActionKinds are the actions that only histories of replicas have.
var faultActionKinds []actionKind

func init() {
	faultActionKinds = []actionKind{
		{"a replica is cut off", 4, false, cutReplicaOff},
		{"a process is stopped", 4, false, stopProcess},
		{suspended, 3, false, suspendMachine},
		{jumpsForward, 2, false, func(sim *simulation, random *rand.Rand) bool { return moveWallClock(sim, random, 1) }},
		{jumpsBack, 2, false, func(sim *simulation, random *rand.Rand) bool { return moveWallClock(sim, random, -1) }},
		{"a watch is slow", 4, false, slowWatchDown},
		{"the connection of a watch is cut", 5, false, cutWatch},
		{"a watch cache stalls", 4, false, stallWatchCache},
		{"a watch cache forgets its events", 2, false, forgetEvents},
		{"an API server restarts", 1, false, restartSomeAPIServer},
		{"a pod is made again under its name", 2, false, makePodAgain},
		{"a process of a replica is killed", 2, false, killSomeReplica},
		{"the Lease is overwritten by another holder", 1, false, overwriteLease},
	}
}

const (
	suspended    = "a machine is suspended"
	jumpsForward = "a wall clock jumps forward"
	jumpsBack    = "a wall clock jumps back"
)

// drawFaults makes this a history of replicas, and draws its faults: each kind is in about half of
// the histories.
func (sim *simulation) drawFaults(without faultSet) {
	s, random := &sim.settings, sim.random
	sim.replicated, sim.newestEpoch, sim.decidedEpoch = true, -1, -1
	sim.outside = &virtualClock{tasks: sim.tasks, now: startTime}
	sim.server.now = sim.outside.Now
	sim.apiServers = []*apiServer{sim.newAPIServer("API server A"), sim.newAPIServer("API server B")}
	n := []int{1, 2, 2, 2, 3, 3}[random.IntN(6)]
	sim.cachesLag, sim.watchLists, sim.bookmarks = random.IntN(3) > 0, random.IntN(3) == 0, random.IntN(2) == 0
	sometimes := func(p float64) float64 {
		if random.IntN(2) == 0 {
			return 0
		}
		return random.Float64() * p
	}
	sim.quietTime = 1 + random.IntN(30)
	for _, verb := range []string{leaseVerb, "journal", "list"} {
		s.requestFaults[verb] = sometimes(0.3)
	}
	s.outcomes = slices.Clone(outcomes)
	for _, f := range moreOutcomes {
		if random.IntN(2) == 0 {
			s.outcomes = append(s.outcomes, f)
		}
		if verb := []string{"bind", "patch", "get", "delete"}[random.IntN(4)]; random.IntN(6) == 0 {
			s.frequentOutcomes[verb] = f
		}
	}
	// A machine that was suspended knows it from its wall clock.
	jumps := random.IntN(2) == 0
	s.kinds = slices.Clone(s.kinds)
	for _, kind := range sim.faultActions() {
		weight := kind.weight
		if random.IntN(2) == 0 || kind.name == suspended && jumps || (kind.name == jumpsForward || kind.name == jumpsBack) && !jumps {
			weight = 0
		}
		if without&withoutFaultActions != 0 {
			weight = 0
		}
		s.kinds, s.actionWeights = append(s.kinds, kind), append(s.actionWeights, weight)
	}
	s.actions += random.IntN(30)
	switch {
	case sim.isBusy() && sim.hasGangs():
		sim.makeBusyWithGangs()
	case sim.isBusy():
		sim.makeBusy()
	}
	sim.leaveOut(without)
	if without&withoutStandbys != 0 {
		n = 1
	}
	for len(sim.replicas) < n {
		sim.replicas = append(sim.replicas, sim.newReplica())
	}
	for _, r := range sim.replicas {
		r.api, r.clock.two = sim.apiServers[random.IntN(2)], true
	}
	sim.logf("%d replicas; watch caches lag: %v; first lists come by watches: %v; bookmarks: %v", n, sim.cachesLag, sim.watchLists, sim.bookmarks)
}

// leaveOut leaves faults out.
func (sim *simulation) leaveOut(without faultSet) {
	if without&withoutPluginFaults != 0 {
		sim.settings.pluginFaults, sim.settings.slowCalls = 0, 0
	}
	if without&withoutRequestFaults != 0 {
		clear(sim.settings.requestFaults)
	}
	if without&withoutLaggingCaches != 0 {
		sim.cachesLag = false
	}
}

// pace returns the weights of the clock and of actions. A leader is replaced within twenty seconds
// or so: where nothing else happens, more time passes than in other histories, and actions wait
// for the first leader.
func (sim *simulation) pace(quiet bool) (clock, action int) {
	clock, action = sim.settings.weights.clock, sim.settings.weights.action
	if quiet {
		clock *= sim.quietTime
	}
	if sim.newestEpoch < 0 && sim.steps < 1000 {
		action = 0
	}
	return clock, action
}

// offerFaults offers the steps that only histories of replicas have.
func (sim *simulation) offerFaults(offer func(int, func())) {
	sim.offerWatches(offer)
	for _, r := range sim.replicas {
		if r.exiting != "" && !r.stopped {
			offer(1, func() { sim.endProcess(r) })
		}
	}
}

// heal ends all faults.
func (sim *simulation) heal() {
	sim.outside.waiters = nil
	for _, s := range sim.apiServers {
		for _, cache := range s.caches {
			cache.stalled = false
		}
	}
	for _, r := range sim.replicas {
		for _, watch := range r.informers {
			watch.slow = false
		}
		if r.stopped {
			sim.wake(r)
		}
		if r.cutOff {
			sim.connect(r)
		}
		if r.dead {
			sim.startAgain(r)
		}
	}
	sim.use(sim.front())
}

// requiredReplicaEvents are what a thousand seeds of histories of replicas must have seen.
func requiredReplicaEvents() []string {
	all := []string{
		"a crash", leaderElected, "a new leader's first decision", "a leader wakes up and has a successor",
		"a leader is elected while its predecessor stands still", "a leader is elected while its predecessor is cut off",
		"a leader is elected while its predecessor runs", "a leader places a pod although its successor has placed one",
		"a leader reads another holder in its Lease", "a leader cannot renew its Lease in time", "a request for the Lease times out",
		"a write is not sent, since the process may not lead", "late lease refused",
		"a Binding of an earlier epoch is refused after the next leader's first decision",
		"a Binding of an earlier epoch is refused during a handover", "a Binding of an earlier epoch is committed during a handover",
		"a standby is up to date at the end", "a connection is lost while a request is under way",
		"a bookmark", "a watch expires, which is 410", "a watch resumes from its version",
		"a watch resumes at an API server that is behind it", "the first list comes by a watch",
		"a watch cache does not have the version of a list", "a list is older than etcd",
		"the first list of a process is older than what the process before it saw",
		"a list finds another object under the same name", "a deletion found only by a list",
	}
	for _, kind := range faultActionKinds {
		all = append(all, kind.name)
	}
	for _, verb := range []string{"bind", "patch", "delete"} {
		for _, f := range moreOutcomes {
			all = append(all, verb+" "+f.name)
		}
	}
	return append(all, "get "+moreOutcomes[0].name)
}
