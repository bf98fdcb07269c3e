package operator

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// leaseTolerance is how long after the end of its Lease a leader may be there:
// what client-go's HealthzAdaptor is given by kube-scheduler.
const leaseTolerance = 20 * time.Second

// tenure is the Lease that the elector reads and writes, and what that says of
// this process: whether it leads, and since when that is not sure any more. The
// elector is the manager's own, and cannot be asked.
type tenure struct {
	resourcelock.Interface
	election election
	clock    clock.PassiveClock

	mu sync.Mutex
	// renewed is when the Lease was last asked for and granted; zero while it is
	// not ours.
	renewed time.Time
}

// newTenure returns the Lease of Berth's namespace. What becomes of it is told as
// Events by recorder.
func newTenure(client clientset.Interface, o options, recorder events.EventRecorderLogger) (*tenure, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this process: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: leaseName},
		Client:    client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: leaseEvents{recorder},
		},
	}
	return &tenure{Interface: lock, election: o.elect, clock: clock.RealClock{}}, nil
}

// Create is resourcelock's.
func (t *tenure) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked := t.clock.Now()
	err := t.Interface.Create(ctx, record)
	t.note(asked, record.HolderIdentity, err)
	return err
}

// Update is resourcelock's.
func (t *tenure) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	asked := t.clock.Now()
	err := t.Interface.Update(ctx, record)
	t.note(asked, record.HolderIdentity, err)
	return err
}

func (t *tenure) note(asked time.Time, holder string, err error) {
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = time.Time{}
	if holder == t.Identity() {
		t.renewed = asked
	}
}

// holds says whether this process leads, for as long as it renews in time.
func (t *tenure) holds() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.renewed.IsZero() && t.clock.Since(t.renewed) < t.election.RenewDeadline
}

// alive fails when the Lease has long ended, and the process that held it goes on
// as if it led.
func (t *tenure) alive() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.renewed.IsZero() {
		return nil
	}
	if age := t.clock.Since(t.renewed); age > t.election.LeaseDuration+leaseTolerance {
		return fmt.Errorf("the Lease %s was last renewed at %s (%v ago), and neither renewed nor given up since",
			t.Describe(), t.renewed.UTC().Format(time.RFC3339), age.Round(time.Second))
	}
	return nil
}

// leaseEvents tells what becomes of the Lease as the house tells everything.
type leaseEvents struct{ to events.EventRecorderLogger }

// Eventf is resourcelock's.
func (e leaseEvents) Eventf(about runtime.Object, eventType, reason, note string, args ...any) {
	e.to.Eventf(about, nil, eventType, reason, reason, note, args...)
}
