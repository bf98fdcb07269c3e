package crashes

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// Scenarios of leaders.

// journalName is the name of the ConfigMap with the journal of Bindings.
const journalName = "berth-bindings"

// prepareHandover leaves a pod that is refused, and a claim that an earlier leader was about to
// allocate.
func prepareHandover(ctx context.Context, e *env) error {
	if err := prepareNodesWithDevices(ctx, e); err != nil {
		return err
	}
	if err := e.create(ctx, fixture.ResourceClaim(e.id+"/gpu").Request("gpu", e.id).Finalizer().Obj()); err != nil {
		return err
	}
	if err := e.createPods(ctx, e.pod("refused", 8)); err != nil {
		return err
	}
	return e.refused(ctx, v1.PodReasonUnschedulable, "refused")
}

// newPods creates pods that no leader has tried.
func (e *env) newPods(ctx context.Context) error {
	return e.createPods(ctx, e.pod("web-0", 1), e.pod("web-1", 1), withClaim(e.pod("web-2", 0)))
}

// actHandover kills the leader, and creates pods while no process leads.
func actHandover(ctx context.Context, e *env) error {
	e.end(e.leader())
	if err := e.newPods(ctx); err != nil {
		return err
	}
	return e.bound(ctx, "web-0", "web-1", "web-2")
}

// actLeaderEnds ends the leader with SIGTERM while it binds pods.
func actLeaderEnds(ctx context.Context, e *env) error {
	if err := e.newPods(ctx); err != nil {
		return err
	}
	from, at := e.leader(), time.Now()
	if err := e.terminate(from); err != nil {
		return err
	}
	if err := until(ctx, "the end of the leader", func(context.Context) error {
		if from.running() && from.manager.Load().PID() == e.terminated {
			return errors.New("it runs")
		}
		return nil
	}); err != nil {
		return err
	}
	if err := e.leads(ctx, at); err != nil {
		return err
	}
	return e.bound(ctx, "web-0", "web-1", "web-2")
}

// terminate sends SIGTERM to the process of a replica, which the cell may have killed just before.
func (e *env) terminate(r *replica) error {
	r.expected.Store(true)
	e.terminated = r.manager.Load().PID()
	if err := r.manager.Load().Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// prepareFirstLeader ends all processes, and deletes what leaders leave.
func prepareFirstLeader(ctx context.Context, e *env) error {
	if err := prepareHandover(ctx, e); err != nil {
		return err
	}
	e.endAll()
	api := e.cp.Client()
	for _, err := range []error{
		api.CoordinationV1().Leases(operator.Namespace).Delete(ctx, operator.Lease, deleteOptions),
		api.CoreV1().ConfigMaps(operator.Namespace).Delete(ctx, journalName, deleteOptions),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// actFirstLeader creates pods, and waits until the process that is started meanwhile has bound
// them.
func actFirstLeader(ctx context.Context, e *env) error {
	if err := e.newPods(ctx); err != nil {
		return err
	}
	return e.bound(ctx, "web-0", "web-1", "web-2")
}
