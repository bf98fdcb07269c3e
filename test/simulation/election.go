package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
)

// The durations of the election, as the flags' defaults are. A request for the Lease times out
// after half of the renew deadline: see leadership.Tracker.NewLeaseLock.
const (
	leaseDuration  = 15 * time.Second
	renewDeadline  = 10 * time.Second
	retryPeriod    = 2 * time.Second
	jitterFactor   = 1.2
	leaseTimeout   = renewDeadline / 2
	leaseVerb      = "lease"
	leaseNamespace = "berth"
)

// election elects the leader in one process: the shipped Tracker around client-go's LeaseLock,
// and the rules of client-go's LeaderElector, which itself cannot run on a virtual clock.
// Source: k8s.io/client-go/tools/leaderelection, leaderelection.go.
type election struct {
	sim     *simulation
	replica *replica
	tracker *leadership.Tracker
	lock    resourcelock.Interface
	// observed is the record that was read or written last, observedAt when.
	observed    resourcelock.LeaderElectionRecord
	observedRaw []byte
	observedAt  time.Time
	// deadline is the monotonic time at which a renewal has failed; 0: there is none.
	deadline time.Duration
	// transport is the shipped one of the clients that write: the Tracker refuses writes in it.
	transport http.RoundTripper
	// leads says that the process was elected. It ends when it leads no more.
	leads bool
}

func (sim *simulation) newElection() *election {
	e := &election{sim: sim, replica: sim.replica}
	e.tracker = leadership.New(sim.clock, renewDeadline, func() {
		sim.count("a leader reads another holder in its Lease")
		e.exit("another process holds the Lease")
	})
	config := &restclient.Config{}
	e.tracker.FenceWrites(config)
	e.transport = config.WrapTransport(wire{sim})
	e.lock = e.tracker.TrackLock(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseNamespace},
		Client:     &leases{election: e},
		LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprint("process ", sim.process)},
	}, func(context.Context) bool { return false }) // the Lease is never deleted
	return e
}

// leaderEpoch is the leader epoch of the replica. Without replicas it is the number of the
// process.
func (sim *simulation) leaderEpoch() int64 {
	if sim.election == nil {
		return int64(sim.process)
	}
	return sim.election.tracker.Epoch()
}

// leadership is what the process knows of its leadership.
func (e *election) leadership(context.Context) (journal.Leadership, error) {
	return journal.Leadership{Elected: true, Epoch: e.tracker.Epoch(), Lease: e.tracker.LeaseUID(), First: e.tracker.First()}, nil
}

// run acquires the Lease, starts the loop, and renews the Lease as long as it can. Then the
// process exits.
func (e *election) run() {
	for !e.tryAcquireOrRenew() {
		e.pause(retryPeriod + time.Duration(e.sim.random.Float64()*jitterFactor*float64(retryPeriod)))
	}
	sim := e.sim
	e.leads = true
	sim.newestEpoch = max(sim.newestEpoch, e.tracker.Epoch())
	sim.startedAt = sim.steps
	sim.logf("leads with epoch %d", e.tracker.Epoch())
	sim.noteElection()
	sim.noteNewLeader()
	sim.startLoop()
	if sim.replica.manager != nil {
		sim.replica.manager.lead()
	}
	for e.renew() {
		e.pause(retryPeriod)
	}
	sim.count("a leader cannot renew its Lease in time")
	e.exit("the Lease was not renewed in time")
}

// renew renews the Lease, and returns false where that did not succeed within renewDeadline.
func (e *election) renew() bool {
	e.deadline = e.replica.clock.monotonic() + renewDeadline
	defer func() { e.deadline = 0 }()
	for e.untilDeadline() > 0 {
		if e.tryAcquireOrRenew() {
			return true
		}
		e.pause(min(retryPeriod, e.untilDeadline()))
	}
	return false
}

func (e *election) untilDeadline() time.Duration {
	return e.deadline - e.replica.clock.monotonic()
}

// pause waits for a time that may pass when the history is quiescent.
func (e *election) pause(d time.Duration) {
	<-e.replica.clock.waitUntil(e.replica.clock.now.Add(d), true)
}

// exit ends the process, a little later: other tasks may run until then.
func (e *election) exit(why string) {
	e.sim.logf("exits: %s", why)
	e.replica.exiting = why
	e.sim.tasks.yield(func() bool { return false })
}

// tryAcquireOrRenew is LeaderElector's.
func (e *election) tryAcquireOrRenew() bool {
	ctx, now := context.Background(), e.replica.clock.Now()
	record := resourcelock.LeaderElectionRecord{
		HolderIdentity: e.lock.Identity(), LeaseDurationSeconds: int(leaseDuration / time.Second),
		RenewTime: metav1.NewTime(now), AcquireTime: metav1.NewTime(now),
	}
	if e.isLeader() && e.isValid(now) {
		record.AcquireTime, record.LeaderTransitions = e.observed.AcquireTime, e.observed.LeaderTransitions
		if e.lock.Update(ctx, record) == nil {
			e.observe(record)
			return true
		}
	}
	old, raw, err := e.lock.Get(ctx)
	if err != nil {
		if apierrors.IsNotFound(err) && e.lock.Create(ctx, record) == nil {
			e.observe(record)
			return true
		}
		return false
	}
	if !bytes.Equal(e.observedRaw, raw) {
		e.observe(*old)
		e.observedRaw = raw
	}
	if old.HolderIdentity != "" && e.isValid(now) && !e.isLeader() {
		return false
	}
	record.LeaderTransitions = old.LeaderTransitions + 1
	if e.isLeader() {
		record.AcquireTime, record.LeaderTransitions = old.AcquireTime, old.LeaderTransitions
	}
	if e.lock.Update(ctx, record) != nil {
		return false
	}
	e.observe(record)
	return true
}

func (e *election) isLeader() bool { return e.observed.HolderIdentity == e.lock.Identity() }

func (e *election) isValid(now time.Time) bool {
	return e.observedAt.Add(time.Duration(e.observed.LeaseDurationSeconds) * time.Second).After(now)
}

func (e *election) observe(record resourcelock.LeaderElectionRecord) {
	e.observed, e.observedAt = record, e.replica.clock.Now()
}

var (
	leaseResource   = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	errLeaseTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
)

// leases is the client of the Lease of one process.
type leases struct {
	coordinationclient.LeaseInterface
	election *election
}

func (l *leases) Leases(string) coordinationclient.LeaseInterface { return l }

func (l *leases) Get(_ context.Context, name string, _ metav1.GetOptions) (found *coordinationv1.Lease, err error) {
	sim := l.election.sim
	err = l.election.call("get the Lease", func() error {
		if sim.lease == nil {
			return apierrors.NewNotFound(leaseResource, name)
		}
		found = sim.lease.DeepCopy()
		return nil
	})
	return found, err
}

func (l *leases) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.write("create the Lease", lease)
}

func (l *leases) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.write("update the Lease", lease)
}

// write stores the Lease at the version that it replaces; without a version it creates it.
func (l *leases) write(what string, lease *coordinationv1.Lease) (written *coordinationv1.Lease, err error) {
	sim := l.election.sim
	lease = lease.DeepCopy()
	what = fmt.Sprintf("%s for %s (version %q, epoch %d)", what, *lease.Spec.HolderIdentity, lease.ResourceVersion, *lease.Spec.LeaseTransitions)
	err = l.election.call(what, func() error {
		switch {
		case sim.lease == nil && lease.ResourceVersion != "":
			return apierrors.NewNotFound(leaseResource, lease.Name)
		case sim.lease != nil && lease.ResourceVersion == "":
			return apierrors.NewAlreadyExists(leaseResource, lease.Name)
		case sim.lease != nil && sim.lease.ResourceVersion != lease.ResourceVersion:
			return apierrors.NewConflict(leaseResource, lease.Name, errors.New("the resource version is another"))
		}
		sim.server.version++
		stored := lease.DeepCopy()
		stored.ResourceVersion = itoa(sim.server.version)
		sim.lease, written = stored, stored.DeepCopy()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// call sends a request that times out.
func (e *election) call(what string, commit func() error) error {
	sim, clock, timeout := e.sim, e.replica.clock, leaseTimeout
	if e.deadline != 0 {
		timeout = min(timeout, e.untilDeadline())
	}
	over := clock.add(clock.now.Add(timeout), nil)
	over.periodic = true
	defer clock.remove(over)
	isOver := func() bool { return !clock.now.Before(over.at) }
	for retries := 0; !isOver(); retries++ {
		r := sim.send(leaseVerb, what, func() (*v1.Pod, error) { return nil, commit() })
		sim.tasks.yield(func() bool { return r.answered || isOver() })
		switch {
		case !r.answered:
			sim.giveUp(r)
		case r.retryAfter && retries < maxRetries:
			clock.Sleep(retryAfter)
		default:
			return r.err
		}
	}
	return errLeaseTimeout
}

// giveUp ends the wait for a response. A request that has not arrived may still do.
func (sim *simulation) giveUp(r *request) {
	sim.count("a request for the Lease times out")
	for i, other := range sim.requests {
		if other == r {
			sim.requests = append(sim.requests[:i:i], sim.requests[i+1:]...)
			break
		}
	}
	if !r.arrived {
		sim.lateWrites = append(sim.lateWrites, r)
	}
}

// requestTimeout is how long an API server works on a request at most.
const requestTimeout = time.Minute

// isTooOld says that a late write cannot be under way any more. A leader relies on that only for
// pods and claims that it could not fence.
func (sim *simulation) isTooOld(r *request) bool {
	now := sim.clock.now
	if sim.hasReplicas() {
		now = sim.outside.now
	}
	return (sim.fencesFail || sim.devices.unfenced[r.about]) && now.Sub(r.sentAt) >= requestTimeout
}

// isPodWrite says whether requests of that verb change pods.
func isPodWrite(verb string) bool { return verb == "bind" || verb == "patch" || verb == "delete" }
