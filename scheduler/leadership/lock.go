package leadership

import (
	"context"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// NewLeaseLock returns a resource lock on the Lease of that name, with a client of
// its own, whose operations t tracks. recorder, which may be nil, gets Events about
// changes of the leader; hadLeader is that of TrackLock. A request times out after half of the validity: one that
// hangs must not cost the leadership. The RBAC rules are in
// config/rbac/leader_election_role.yaml.
func (t *Tracker) NewLeaseLock(config *restclient.Config, namespace, name string, recorder resourcelock.EventRecorder, hadLeader func(context.Context) bool) (resourcelock.Interface, error) {
	// AddUserAgent changes what it is given. The caller's other clients watch with config, and
	// would end each watch at the timeout.
	config = restclient.AddUserAgent(restclient.CopyConfig(config), "leader-election")
	config.Timeout = max(t.validity/2, time.Second)
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the Lease: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name for the identity of the Lease's holder: %w", err)
	}
	return t.TrackLock(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: recorder},
	}, hadLeader), nil
}

// TrackLock returns lock with its operations tracked by t. It changes the client of lock. hadLeader
// reports whether anything but the Lease says that there was a leader. It is called before the Lease
// is created: after that this process may write what says so.
func (t *Tracker) TrackLock(lock *resourcelock.LeaseLock, hadLeader func(context.Context) bool) resourcelock.Interface {
	read := &readVersion{LeasesGetter: lock.Client}
	lock.Client = read
	return trackedLock{lock, t, read, hadLeader}
}

// readVersion notes the resourceVersion of the Lease that was read last, and the UID of the one that
// was read or created last.
type readVersion struct {
	coordinationclient.LeasesGetter
	version string
	uid     types.UID
}

func (r *readVersion) Leases(namespace string) coordinationclient.LeaseInterface {
	return notingLeases{r.LeasesGetter.Leases(namespace), r}
}

type notingLeases struct {
	coordinationclient.LeaseInterface
	read *readVersion
}

func (l notingLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Get(ctx, name, o)
	if err == nil {
		l.read.version, l.read.uid = lease.ResourceVersion, lease.UID
	}
	return lease, err
}

func (l notingLeases) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	created, err := l.LeaseInterface.Create(ctx, lease, o)
	if err == nil {
		l.read.uid = created.UID
	}
	return created, err
}

// trackedLock reports the operations of a resource lock to a Tracker. A leader
// election uses it from one goroutine.
type trackedLock struct {
	resourcelock.Interface
	tracker *Tracker
	read    *readVersion
	// hadLeader is that of TrackLock.
	hadLeader func(context.Context) bool
}

// Get reads the Lease. If another process holds it, the tracker knows at once, and
// not only after this process has failed to renew for long enough.
//
// What client-go compares to find out whether the holder renewed ends with the Lease's
// resourceVersion. Its times are in seconds of the holder's clock: where that is set back, a
// renewal may have those of one that this process observed before.
func (l trackedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && l.tracker.recordLoss(record.HolderIdentity) {
		l.tracker.onLost()
	}
	return record, append(raw, l.read.version...), err
}

// Create creates the Lease.
func (l trackedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	first := !l.hadLeader(ctx)
	sent := l.tracker.firstSent(record)
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.tracker.recordCreation(first)
		l.tracker.recordRenewal(sent, record, l.read.uid)
	}
	return err
}

// Update acquires, renews or releases the Lease. It releases only what this process
// holds: client-go's election, when it resumes after its deadline, reads the Lease
// of its successor and releases that one.
func (l trackedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if !l.tracker.recordLoss("") {
			return nil
		}
		return l.Interface.Update(ctx, record)
	}
	sent := l.tracker.firstSent(record)
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.tracker.recordRenewal(sent, record, l.read.uid)
	}
	return err
}
