// Package simulation runs the real loop, queue, cache, cycle, profiles and bindings on a
// virtual clock against a model of the API server, one step at a time. The seed decides
// everything: what users do to pods, nodes and profiles, which responses are lost, how far the
// watches lag, and which task runs next. One seed, one history.
//
// Each concurrent part of the process (the loop, each binding, each status writer, the
// handlers of each informer, the reconciler of each profile) is a task: a goroutine that runs
// only while the executor lets it. A task yields where it waits (for a response, for time, for
// another task) and, with some probability, inside a plugin's call, so that other tasks run in
// between. No task yields while it holds a lock.
//
// In every third history the plugin Probe is out-of-tree: attempts with it run outside the
// loop, in tasks of their own, and in half of those histories some of its calls are slow or
// exceed framework.CallTimeout.
//
// In every fourth history leaders are elected. A frozen leader has a successor, and what it
// has sent arrives at any later moment: see leaders.go.
//
// In a history of gangs, groups of pods come beside the single pods: see gangs.go. In a history
// of volumes or of devices pods use claims: see volumes.go and devices.go. In a history of
// explanations it is written why pods wait: see explanations.go.
//
// In a history of replicas, up to three processes run beside each other, elect a leader and
// watch API servers whose watch caches lag, under faults of their machines, of the network and
// of their clocks: see replicas.go.
//
// In a history of controllers, which has replicas too, the controllers reconcile profiles that are
// objects, and write their statuses: see controllers.go.
//
// Invariants are checked while a history runs and once more when it is quiescent: see
// check.go. Seeds that once violated one are kept in seeds/.
//
// An input is a seed with what changes its history: other settings, another plan, what happens
// at a step. A guided run keeps inputs that meet what no other has met, and changes them: see
// input.go, coverage.go and guided.go.
package simulation

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/plugins"
)

// simulation is the state of one history.
type simulation struct {
	seed     uint64
	random   *rand.Rand
	settings settings
	// plan are the actions in order; actionsDone counts those that have happened, and skipped
	// has the gaps in it.
	plan        []action
	actionsDone int
	skipped     map[int]bool
	interventions

	tasks      *executor
	server     *server
	requests   []*request
	lateWrites []*request // whose sender has given up, and which may still take effect

	// replica is the one whose task runs; between the tasks, the one that front returns.
	*replica
	replicas []*replica
	// processCount numbers the processes of all replicas: a crash starts the next.
	processCount int
	profiles     []*profile
	specCount    int
	specOf       map[string]int       // the number of a spec, by the Blueprint's hash
	specs        map[int]*profileSpec // by number

	placements     map[types.UID][]placement
	placementCount int
	bindingsSent   map[types.UID]int  // Bindings sent since a pod's last placement
	boundBy        map[types.UID]int  // the process whose placement was committed
	boundElsewhere map[types.UID]bool // pods created for our profiles that another component bound
	unwritable     map[types.UID]bool // pods whose nomination the API server forbids to write
	evictions
	leaders
	faults
	gangs gangs
	furtherState
	// healed says that faults and actions have ended.
	healed bool

	steps   int
	logHash hash.Hash64
	log     []string // kept when keepLog says so
	keepLog bool
	counts  map[string]int
	// cover records what the history meets; nil: nothing does.
	cover   *coverage
	failure error
}

// kind is a kind of histories, each with seeds of its own.
type kind struct {
	// gangs is the number of gangs in each history; 0: pods come one by one.
	gangs int
	// replicas says that replicas run beside each other and watch API servers whose watch caches
	// lag: see replicas.go. With gangs, both are in each history. without are the faults that are left out.
	replicas bool
	without  faultSet
	// volumes says that pods use PersistentVolumeClaims.
	volumes bool
	// devices says that pods use ResourceClaims.
	devices bool
	// explanations says that the explainer writes why pods wait.
	explanations bool
	// controllers says that profiles are objects, which the reconciler that ships reconciles. Such
	// a history has replicas too.
	controllers bool
}

// run plays the history of a seed and returns its state when it is quiescent, or when the
// first invariant was violated. keepLog keeps the log's lines.
func (k kind) run(seed uint64, keepLog bool) *simulation {
	return k.runInput(input{Seed: seed}, runOptions{keepLog: keepLog})
}

// runOptions change nothing in a history.
type runOptions struct {
	keepLog bool
	cover   *coverage
	// drawOnly ends the run as soon as the settings and the plan are drawn.
	drawOnly bool
}

// runInput is run for an input.
func (k kind) runInput(in input, o runOptions) *simulation {
	seed := in.Seed
	sim := &simulation{
		seed: seed, random: rand.New(rand.NewPCG(seed, 1)), skipped: map[int]bool{}, keepLog: o.keepLog, cover: o.cover,
		tasks: newExecutor(), server: newServer(), logHash: fnv.New64a(), counts: map[string]int{},
		specOf: map[string]int{}, placements: map[types.UID][]placement{}, bindingsSent: map[types.UID]int{},
		evictions: evictions{ourPods: map[types.UID]*v1.Pod{}, evicted: map[types.UID]int{}, turns: map[string]int{}},
		boundBy:   map[types.UID]int{}, boundElsewhere: map[types.UID]bool{}, unwritable: map[types.UID]bool{}, specs: map[int]*profileSpec{},
	}
	sim.replicas = []*replica{sim.newReplica()}
	sim.use(sim.replicas[0])
	sim.server.onBind, sim.server.onEvict, sim.server.now = sim.checkBind, sim.checkEvict, sim.clock.Now
	sim.server.onChange = sim.noteChange
	sim.tasks.onPanic = func(t *task, value any, stack []byte) {
		sim.failf("%s panicked: %v\n%s", t.name, value, stack)
	}
	sim.tasks.onSpin = func(t *task) { sim.failf("%s reads the clock again and again, and never waits", t.name) }
	sim.settings = newSettings(sim.random)
	if seed%3 == 0 {
		sim.settings.makeProbeOutOfTree(sim.random)
	}
	if seed%16 == 4 {
		sim.settings.loseBindings()
	}
	if k.gangs > 0 {
		sim.drawGangs(k.gangs)
	}
	if k.controllers {
		sim.drawControllers()
	}
	if k.replicas {
		sim.drawFaults(k.without)
	}
	if k.volumes {
		sim.drawVolumes()
	}
	if k.devices {
		sim.drawDevices()
	}
	if k.explanations {
		sim.drawExplanations()
	}
	sim.plan = sim.settings.plan(sim.random)
	if seed%4 == 1 && !k.replicas {
		sim.electLeaders()
	}
	if o.drawOnly {
		return sim
	}
	sim.applyInput(in)
	sim.createInitialState()
	sim.startReplicas()
	for sim.failure == nil && sim.actionsDone < len(sim.plan) {
		sim.step()
	}
	sim.stepsOfFaults = sim.steps
	sim.endFaults()
	for _, r := range sim.replicas {
		sim.use(r)
		r.process = sim.nextProcess() // Generations that end now are not checked.
		sim.tasks.endAll(r)
	}
	sim.cover.end(sim)
	return sim
}

const loopTask = "loop"

// startProcess starts a scheduler and the reconcilers.
func (sim *simulation) startProcess() {
	sim.process = sim.nextProcess()
	sim.cover.endOfProcess(sim)
	sim.noteEndOfProcess()
	sim.probes, sim.openGenerations, sim.handle = nil, 0, nil
	if sim.hasReplicas() {
		sim.election = sim.newElection()
	}
	pods, nodes := sim.newInformer("pods", isLivePod), sim.newInformer("nodes", isNode)
	sim.informers, sim.knownNow = []*informer{pods, nodes}, nil
	factory := newFactory(&client{sim: sim, process: sim.process}, pods, nodes)
	if sim.hasGangs() {
		factory.podGroups = sim.newInformer("podgroups", isPodGroup)
		sim.informers = append(sim.informers, factory.podGroups)
	}
	if kinds := sim.furtherKinds(); len(kinds) > 0 {
		sim.addFurtherInformers(factory, kinds)
	}
	ledger := decision.NewLedger(sim.clock.Now)
	explained := sim.newExplanations(ledger)
	registry := sim.registry()
	api := &client{sim: sim, process: sim.process}
	sim.sched = scheduler.New(scheduler.Options{
		Client:       api,
		Informers:    factory,
		PodGroups:    eventhandlers.PodGroups{Native: sim.hasGangs()},
		Storage:      sim.storage(),
		Devices:      sim.servedDevices(),
		Transform:    transform,
		RecorderFor:  func(string) events.EventRecorderLogger { return recorder{sim: sim} },
		Registry:     registry,
		Unsupported:  plugins.Unsupported(registry),
		Ledger:       ledger,
		Explanations: explained,
		Clock:        sim.clock,
		Log:          logr.Discard(),
		Epoch:        func(context.Context) int64 { return sim.leaderEpoch() },
		Handover:     sim.handover(),
		Go:           func(work func()) { sim.tasks.start("work", work).known = sim.known() },
		Wait:         sim.tasks.wait,
		ChunkSize:    1,
		Yield:        sim.maybeYield,
	})
	sched := sim.sched
	sim.tasks.start("warm", func() { sim.requireNoError(scheduler.Standby{Scheduler: sched}.Start(context.Background())) })
	if sim.election == nil {
		sim.startLoop()
	} else {
		sim.tasks.start("election", sim.election.run)
	}
	sim.reconciled = nil
	if sim.controllers.on {
		sim.startControllers(ledger)
	} else {
		for _, p := range sim.profiles {
			p.startReconciler()
		}
	}
	sim.startExplainer(explained)
}

// startLoop starts the scheduling loop of the replica.
func (sim *simulation) startLoop() {
	sched := sim.sched
	sim.tasks.start(loopTask, func() {
		// Start waits for readiness on a channel of its own.
		sim.tasks.yield(func() bool { return sched.Ready() == nil })
		sim.requireNoError(sched.Start(context.Background()))
	})
}

// nextProcess returns the number of the next process.
func (sim *simulation) nextProcess() int {
	sim.processCount++
	return sim.processCount
}

// killProcess ends the process and starts the next. Of each request that it sent, chance
// decides whether it was committed; writes that arrive after the next process has begun are
// simulated in leaders.go.
func (sim *simulation) killProcess() {
	if sim.hasReplicas() {
		sim.killReplica(sim.replica)
		return
	}
	sim.logf("the process is killed")
	sim.count("a crash")
	sim.tasks.endAll(sim.replica)
	sim.clock.waiters = nil
	// Each of these arrives before the next process begins. The sender of a late write has
	// given up, and decided something else since.
	for _, r := range slices.Concat(sim.requests, sim.lateWrites) {
		if (!r.arrived || r.err == errLost) && sim.chance(0.5) {
			_, err := r.commit()
			sim.logf("server: %q was committed after the crash: %v", r.description, err)
		}
	}
	sim.requests, sim.lateWrites = nil, nil
	sim.process = sim.nextProcess()
	sim.startProcess()
}

func (sim *simulation) requireNoError(err error) {
	if err != nil {
		sim.failf("%v", err)
	}
}

func (sim *simulation) chance(p float64) bool { return p > 0 && sim.random.Float64() < p }

// maybeYield lets other tasks run, with the probability settings.yields.
func (sim *simulation) maybeYield() {
	if sim.chance(sim.settings.yields) {
		sim.tasks.yield(nil)
	}
}

// logf adds a line to the log.
func (sim *simulation) logf(format string, args ...any) {
	line := fmt.Sprintf("%4d %8s  %s", sim.steps, sim.clock.now.Sub(startTime), sim.logPrefix()) + fmt.Sprintf(format, args...)
	_, _ = sim.logHash.Write([]byte(line))
	if sim.keepLog {
		sim.log = append(sim.log, line)
	}
}

// count counts an event that requiredEvents may name.
func (sim *simulation) count(what string) {
	sim.counts[what]++
	sim.cover.count(sim, what)
}

// failf records the first violation.
func (sim *simulation) failf(format string, args ...any) {
	if sim.failure == nil {
		sim.failure = fmt.Errorf(format, args...)
		sim.logf("FAILED: %v", sim.failure)
	}
}

func (sim *simulation) podInformer() *informer  { return sim.informers[0] }
func (sim *simulation) nodeInformer() *informer { return sim.informers[1] }

// recorder checks and counts Events.
type recorder struct {
	events.EventRecorderLogger
	sim *simulation
}

func (r recorder) WithLogger(logr.Logger) events.EventRecorderLogger { return r }

func (r recorder) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.sim.count("event " + reason)
	switch reason {
	case "FailedScheduling":
		r.sim.checkFailure(about.(*v1.Pod), fmt.Sprintf(note, args...))
	case "Preempted":
		r.sim.checkPreempted(about.(*v1.Pod), fmt.Sprintf(note, args...))
	}
}

func isPending(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && isLivePod(pod)
}
