package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	schedprofile "github.com/berthdev/berth/scheduler/profile"
)

// In a history of controllers, profiles are objects of the API server. The reconciler and the
// publisher that Berth ships run in each process, with the history of revisions in the cluster: a
// spec is tried before it runs, and an earlier revision runs where it cannot. The work queue is a
// model of controller-runtime's. Whatever happens: a status is never of an older generation than
// the one before, no count goes back, and no write of an earlier leader is stored after one of a
// later leader. Where the history is quiescent, each status is true within statusBudget.

const (
	// profilesKind is the kind of the informer of SchedulingProfiles.
	profilesKind = "schedulingprofiles"
	// statusBudget is how long a status may be untrue after the last change: five minutes until a
	// spec that failed is retried, and two for the publisher and what the reconciler waits for.
	statusBudget = 7 * time.Minute
)

// The verbs of the controllers' writes.
const (
	writeStatus   = "status"
	writeRevision = "revision"
)

// controllerState is the state of a history of controllers.
type controllerState struct {
	// on says that this is a history of controllers.
	on bool
	// revisions are the ControllerRevisions, by name.
	revisions revisions
	// owned are the fields of each status by field manager, and writtenBy the epoch of the last
	// write, both by the profile's UID.
	owned     map[types.UID]map[string][]string
	writtenBy map[types.UID]int64
	// quietSince is when nothing but statuses was left to do; zero before that.
	quietSince time.Time
	end        endOfReporter
}

func (sim *simulation) drawControllers() {
	sim.controllers = controllerState{on: true, revisions: revisions{}, owned: map[types.UID]map[string][]string{}, writtenBy: map[types.UID]int64{}}
	for _, verb := range []string{writeStatus, writeRevision} {
		if sim.random.IntN(2) == 0 {
			sim.settings.requestFaults[verb] = sim.random.Float64() * 0.5
		}
	}
	if !sim.settings.outOfTree && sim.random.IntN(3) == 0 {
		sim.settings.makeProbeOutOfTree(sim.random) // only such plugins are degraded
	}
	sim.settings.drawControllerActions()
}

// put stores the object of a profile, or deletes it.
func (p *profile) put() {
	s := p.sim.server
	before := find[*v1alpha1.SchedulingProfile](s, p.name)
	switch {
	case p.spec == nil && before != nil:
		s.drop(before)
	case p.spec == nil:
	default:
		object := p.spec.schedulingProfile(p)
		object.UID, object.Generation = types.UID("s"+itoa(s.version)), 1
		if before != nil {
			object.UID, object.Generation, object.Status = before.UID, before.Generation+1, *before.Status.DeepCopy()
		}
		if blueprint, _ := compile.Profile(compile.Input{Profile: object, Registry: p.sim.registry(), Version: simVersion}); blueprint != nil {
			p.sim.specOf[blueprint.Hash] = p.spec.number
		}
		s.put(object)
	}
}

// processControllers are the controllers of one process.
type processControllers struct {
	sim        *simulation
	replica    *replica
	profiles   *informer
	reconciler reconcile.Reconciler
	publisher  manager.Runnable
	elected    chan struct{}
	applier    notingApplier
	queue      map[string]*workItem // by profile
	delays     workqueue.TypedRateLimiter[reconcile.Request]
}

// workItem is a profile in the work queue.
type workItem struct {
	profile *profile
	due     bool
}

// startControllers starts the controllers of a process, which reconcile once their informer has
// listed.
func (sim *simulation) startControllers(ledger *decision.Ledger) {
	c := &processControllers{
		sim: sim, replica: sim.replica, profiles: sim.newInformer(profilesKind, isProfile), elected: make(chan struct{}), queue: map[string]*workItem{},
		delays: controllers.ReconcileDelays(),
	}
	sim.informers = append(sim.informers, c.profiles)
	sim.replica.manager = c
	c.applier = notingApplier{sim.sched.Profiles(), sim, c.profiles, map[string]string{}, map[string]bool{}}
	cluster := controllers.Cluster{Cache: cachedProfiles{c.profiles}, Live: liveProfiles{sim: sim}, Status: statusClient{sim: sim}, Elected: c.elected}
	options := controllers.Options{
		Applier: c.applier, Registry: sim.registry(), Ledger: ledger, Queue: sim.sched, OtherSchedulers: controllers.OtherSchedulers{None: true},
		Version: simVersion, Clock: sim.clock, Recorder: recorder{sim: sim}, Wait: sim.pause, ProfileCache: sim.profileCache,
		History: history.New(history.Options{Revisions: revisionClient{sim: sim}, Process: fmt.Sprint("process ", sim.process), Clock: sim.clock}),
	}
	c.reconciler, c.publisher = controllers.NewProfileReconciler(cluster, options), controllers.NewPublisher(cluster, options)
	for _, p := range sim.profiles {
		item := &workItem{profile: p}
		c.queue[p.name] = item
		p.reconciled = &reconciled{}
		sim.reconciled = append(sim.reconciled, p.reconciled)
		sim.tasks.start(reconcilerPrefix+p.name, func() { c.work(item) }).ignoreDeadlines = true
	}
	if _, err := c.profiles.AddEventHandler(c); err != nil {
		sim.failf("%v", err)
	}
	sim.tasks.start("degraded plugins", c.requeueDegraded)
}

// lead starts what runs in a leader only.
func (c *processControllers) lead() {
	close(c.elected)
	for _, item := range c.queue {
		item.due = true
	}
	c.sim.tasks.start("publisher", func() { c.sim.requireNoError(c.publisher.Start(quietContext())) })
}

func quietContext() context.Context { return log.IntoContext(context.Background(), logr.Discard()) }

// OnAdd, OnUpdate and OnDelete queue a profile.
func (c *processControllers) OnAdd(o any, _ bool) {
	c.queue[o.(*v1alpha1.SchedulingProfile).Name].due = true
}

func (c *processControllers) OnUpdate(before, after any) {
	old, now := before.(*v1alpha1.SchedulingProfile), after.(*v1alpha1.SchedulingProfile)
	if controllers.ProfileChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: now}) {
		c.queue[now.Name].due = true
	}
}

func (c *processControllers) OnDelete(o any) {
	if unknown, is := o.(toolscache.DeletedFinalStateUnknown); is {
		o = unknown.Obj
	}
	c.queue[o.(*v1alpha1.SchedulingProfile).Name].due = true
}

// work reconciles a profile again and again.
func (c *processControllers) work(item *workItem) {
	sim := c.sim
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: item.profile.name}}
	for {
		sim.tasks.yield(func() bool { return item.due && c.profiles.isListed() })
		item.due = false
		result, err := c.reconcile(item.profile, request)
		switch {
		case err != nil:
			sim.count("a reconcile fails")
			sim.logf("reconciler: profile %s: %v", item.profile.name, err)
			c.queueAfter(item, c.delays.When(request))
		case result.RequeueAfter > 0:
			c.delays.Forget(request)
			c.queueAfter(item, result.RequeueAfter)
		default:
			c.delays.Forget(request)
		}
	}
}

// reconcile reconciles a profile once.
func (c *processControllers) reconcile(p *profile, request reconcile.Request) (reconcile.Result, error) {
	defer c.sim.cover.profileChange(p)()
	c.sim.logf("reconciler: profile %s", p.name)
	delete(c.applier.failedTrials, p.name)
	result, err := c.reconciler.Reconcile(quietContext(), request)
	c.sim.logf("reconciler: profile %s is done: %+v, %v", p.name, result, err)
	return result, err
}

// notingApplier is the scheduler's Applier. It notes what runs and what is paused, and checks
// for what it is called.
type notingApplier struct {
	controllers.Applier
	sim      *simulation
	profiles *informer
	// failedTrials are the hashes whose trial failed in this reconcile, by profile. One that ran in
	// another process needs no trial later.
	failedTrials map[string]string
	// onTrial has the profiles of which a spec is tried.
	onTrial map[string]bool
}

func (a notingApplier) Try(ctx context.Context, blueprint *compile.Blueprint) (schedprofile.Trial, error) {
	a.onTrial[blueprint.Name] = true
	trial, err := a.Applier.Try(ctx, blueprint)
	delete(a.onTrial, blueprint.Name)
	if failed := (*schedprofile.TrialError)(nil); errors.As(err, &failed) {
		a.failedTrials[blueprint.Name] = blueprint.Hash
	} else {
		delete(a.failedTrials, blueprint.Name)
	}
	return trial, err
}

func (a notingApplier) Apply(ctx context.Context, blueprint *compile.Blueprint) error {
	p := a.sim.profileNamed(blueprint.Name)
	if a.failedTrials[p.name] == blueprint.Hash {
		a.sim.failf("profile %s runs %s, whose trial failed", p.name, blueprint.Hash)
	}
	err := a.Applier.Apply(ctx, blueprint)
	before := p.running
	a.noteRunning(p)
	if before != nil && before != p.running {
		a.sim.countSwap(p.name)
	}
	return err
}

func (a notingApplier) SetPaused(name string, paused bool) {
	p := a.sim.profileNamed(name)
	p.paused = p.paused || paused
	a.Applier.SetPaused(name, paused)
	p.paused = paused
}

func (a notingApplier) Delete(name string) {
	p := a.sim.profileNamed(name)
	if a.profiles.store[name] != nil {
		a.sim.failf("profile %s is held as if it was deleted", name)
	}
	a.Applier.Delete(name)
	p.paused = false
	a.noteRunning(p)
}

func (a notingApplier) noteRunning(p *profile) {
	p.running = nil
	if running, ok := a.Running(p.name); ok {
		p.running = a.sim.specs[a.sim.specOf[running.Blueprint.Hash]]
	}
}

// queueAfter queues a profile later. The end of a history does not wait for that: a spec that
// cannot be built is retried without end.
func (c *processControllers) queueAfter(item *workItem, d time.Duration) {
	clock := c.replica.clock
	clock.add(clock.now.Add(d), func() { item.due = true }).periodic = true
}

// requeueDegraded queues the profiles whose plugins become degraded or recover.
func (c *processControllers) requeueDegraded() {
	set := c.sim.sched.Profiles()
	for {
		changed := set.DegradedChanged()
		c.sim.tasks.yield(func() bool { return len(changed) > 0 })
		<-changed
		for _, name := range set.TakeDegradedChanges() {
			c.sim.count("plugins of a profile are degraded, or recover")
			if item := c.queue[name]; item != nil {
				item.due = true
			}
		}
	}
}
