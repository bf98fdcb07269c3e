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
	"github.com/berthdev/berth/scheduler/plugins"
)

// world is one history in the making.
type world struct {
	seed  uint64
	dice  *rand.Rand
	swarm swarm
	// plan is what the outside does, in order; done says how far it is.
	plan []act
	done int
	skip map[int]bool

	tasks    *executor
	clock    *virtual
	server   *server
	requests []*request
	ghosts   []*request // writes that may still come true

	// life numbers the process: a crash begins the next.
	life     int
	sched    *scheduler.Scheduler
	watches  []*informer // pods, nodes
	profiles []*profile
	probes   []*probe
	open     int // generations that are not closed
	marks    int
	markOf   map[string]int // by hash
	wishes   map[int]*wish  // by mark

	decisions map[types.UID][]decided
	made      int                // decisions
	binds     map[types.UID]int  // Bindings sent since a pod's last decision
	theirs    map[types.UID]bool // pods of ours that somebody else bound
	untold    map[types.UID]bool // pods whose nomination may not be written
	evictions
	leaders
	// healed says that nothing goes wrong any more.
	healed bool

	steps  int
	told   hash.Hash64
	story  []string // kept when keep says so
	keep   bool
	counts map[string]int
	fault  error
}

// run plays the history of a seed and returns the world at rest, or as it was
// when it broke. skip leaves acts out of the plan; keep writes the story down.
func run(seed uint64, skip map[int]bool, keep bool) *world {
	w := &world{
		seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), skip: skip, keep: keep,
		tasks: newExecutor(), server: newServer(), told: fnv.New64a(), counts: map[string]int{},
		markOf: map[string]int{}, decisions: map[types.UID][]decided{}, binds: map[types.UID]int{},
		evictions: evictions{ours: map[types.UID]*v1.Pod{}, goners: map[types.UID]bool{}, victims: map[types.UID]int{}},
		theirs:    map[types.UID]bool{}, untold: map[types.UID]bool{}, wishes: map[int]*wish{},
	}
	w.clock = &virtual{tasks: w.tasks, now: dawn}
	w.server.onBind, w.server.onEvict, w.server.now = w.checkBind, w.checkEvict, w.clock.Now
	w.tasks.panicked = func(t *task, value any, stack []byte) {
		w.fail("%s panicked: %v\n%s", t.name, value, stack)
	}
	w.tasks.spinning = func(t *task) { w.fail("%s goes round and round", t.name) }
	w.swarm = newSwarm(w.dice)
	if seed%3 == 0 {
		w.swarm.watch(w.dice)
	}
	w.plan = w.swarm.plan(w.dice)
	if seed%4 == 1 {
		w.electLeaders()
	}
	w.settle()
	w.boot()
	for w.fault == nil && w.done < len(w.plan) {
		w.step()
	}
	w.heal()
	w.life++ // what ends now is no generation's fault
	w.tasks.endAll()
	return w
}

const loopTask = "loop"

// boot starts a scheduler, as a process does.
func (w *world) boot() {
	w.life++
	w.probes, w.open = nil, 0
	pods, nodes := w.newInformer("pods", isLivePod), w.newInformer("nodes", isNode)
	w.watches = []*informer{pods, nodes}
	registry := w.registry()
	api := &client{world: w, life: w.life}
	w.sched = scheduler.New(scheduler.Options{
		Client:      api,
		Informers:   newFactory(api, pods, nodes),
		Transform:   transform,
		RecorderFor: func(string) events.EventRecorderLogger { return recorder{world: w} },
		Registry:    registry,
		Unsupported: plugins.Unsupported(registry, func(string) bool { return false }),
		Ledger:      decision.NewLedger(w.clock.Now),
		Clock:       w.clock,
		Log:         logr.Discard(),
		Epoch:       func(context.Context) int64 { return int64(w.life) },
		Handover:    w.takeover(),
		Go:          func(work func()) { w.tasks.start("work", work).view = w.known() },
		Wait:        w.tasks.wait,
		ChunkSize:   1,
		Yield:       w.breathe,
	})
	sched := w.sched
	w.tasks.start("warm", func() { w.must(scheduler.Standby{Scheduler: sched}.Start(context.Background())) })
	w.tasks.start(loopTask, func() {
		// Start waits for this, but in a way of its own.
		w.tasks.park(func() bool { return sched.Ready() == nil })
		w.must(sched.Start(context.Background()))
	})
	for _, p := range w.profiles {
		p.boot()
	}
}

// crash ends the process. What it sent may have been committed or not; the
// fence that keeps late writes of an older leader out is another matter.
func (w *world) crash() {
	w.say("the process is killed")
	w.count("a crash")
	w.tasks.endAll()
	w.clock.alarms = nil
	// What comes through now comes before its successor begins: of the ghosts alone the
	// sender had one, which has decided.
	for _, r := range slices.Concat(w.requests, w.ghosts) {
		if (!r.arrived || r.err == errLost) && w.chance(0.5) {
			_, err := r.commit()
			w.say("server: %q came through: %v", r.what, err)
		}
	}
	w.requests, w.ghosts = nil, nil
	w.life++
	w.boot()
}

func (w *world) must(err error) {
	if err != nil {
		w.fail("%v", err)
	}
}

func (w *world) chance(p float64) bool { return p > 0 && w.dice.Float64() < p }

// breathe lets others come in between, sometimes.
func (w *world) breathe() {
	if w.chance(w.swarm.breath) {
		w.tasks.park(nil)
	}
}

// say adds a line to the story.
func (w *world) say(format string, args ...any) {
	line := fmt.Sprintf("%4d %8s  ", w.steps, w.clock.now.Sub(dawn)) + fmt.Sprintf(format, args...)
	_, _ = w.told.Write([]byte(line))
	if w.keep {
		w.story = append(w.story, line)
	}
}

// count notes that something happened which the test wants to have happened.
func (w *world) count(what string) { w.counts[what]++ }

// fail notes the first thing that must not be.
func (w *world) fail(format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf(format, args...)
		w.say("FAULT: %v", w.fault)
	}
}

func (w *world) pods() *informer  { return w.watches[0] }
func (w *world) nodes() *informer { return w.watches[1] }

// recorder counts events.
type recorder struct {
	events.EventRecorderLogger
	world *world
}

func (r recorder) WithLogger(logr.Logger) events.EventRecorderLogger { return r }

func (r recorder) Eventf(about, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.world.count("event " + reason)
	switch reason {
	case "FailedScheduling":
		r.world.checkFailure(about.(*v1.Pod), fmt.Sprintf(note, args...))
	case "Preempted":
		r.world.checkPreempted(about.(*v1.Pod), fmt.Sprintf(note, args...))
	}
}

func isPending(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && isLivePod(pod)
}
