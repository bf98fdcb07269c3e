package leadership

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/berthdev/berth/scheduler/fault"
)

// Lease returns the Lease of that name as an election holds it, by a client of
// its own, which tells of its changes by news, if there is any. No request may
// take longer than half of the term: one that hangs must not cost the leadership.
// The rights are in config/rbac/leader_election_role.yaml.
func (t *Tracker) NewLeaseLock(config *restclient.Config, namespace, name string, news resourcelock.EventRecorder) (resourcelock.Interface, error) {
	config = restclient.AddUserAgent(config, "leader-election")
	config.Timeout = max(t.validity/2, time.Second)
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the Lease: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("who is to hold the Lease: %w", err)
	}
	return t.TrackLock(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: news},
	}), nil
}

// Lock returns a lock that tells t what becomes of it.
func (t *Tracker) TrackLock(lock resourcelock.Interface) resourcelock.Interface {
	return trackedLock{lock, t}
}

// told is a lock that tells. An election uses it from one goroutine.
type trackedLock struct {
	resourcelock.Interface
	tracker *Tracker
}

// Get reads the Lease. That another one holds it is known at once, and not only
// when this process has tried to renew in vain for long enough.
func (l trackedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && !fault.TheftUnnoticed && l.tracker.recordLoss(record.HolderIdentity) {
		l.tracker.onLost()
	}
	return record, raw, err
}

// Create takes a Lease that is not there.
func (l trackedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	sent := l.tracker.clock.Now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.tracker.recordCreation()
		l.tracker.recordRenewal(sent, record.HolderIdentity, record.LeaderTransitions)
	}
	return err
}

// Update takes or renews the Lease, or gives it back. It gives back what this
// process holds, and nothing else: client-go's election, when it wakes up after
// its deadline, reads the Lease of its successor and releases that.
func (l trackedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if !l.tracker.recordLoss("") && !fault.SuccessorReleased {
			return nil
		}
		return l.Interface.Update(ctx, record)
	}
	sent := l.tracker.clock.Now()
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.tracker.recordRenewal(sent, record.HolderIdentity, record.LeaderTransitions)
	}
	return err
}
