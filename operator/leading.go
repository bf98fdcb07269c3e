package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/recorder"
)

// leaseTolerance is how long after the end of its Lease a leader may be there:
// what client-go's HealthzAdaptor is given by kube-scheduler.
const leaseTolerance = 20 * time.Second

// lease is what the leader is elected by; nil where none is.
func (o options) lease(term *leadership.Tracker, config *restclient.Config, telling *recorder.Recorder) (resourcelock.Interface, error) {
	if !o.leaderElection.LeaderElect {
		term.DisableElection()
		return nil, nil
	}
	return term.NewLeaseLock(config, o.namespace, leaseName, electionRecorder{telling})
}

// electionNews tells of elections as Events of ours.
type electionRecorder struct{ *recorder.Recorder }

// Eventf tells who began or stopped to lead.
func (n electionRecorder) Eventf(about runtime.Object, kind, reason, message string, args ...any) {
	n.For(eventReporter).Eventf(about, nil, kind, reason, "Election", message, args...)
}

// takeover is what a new leader asks.
func (c clients) handover(o options, term *leadership.Tracker, log logr.Logger) scheduler.Handover {
	call := leadership.NewQuorumLister(c.meta)
	return scheduler.Handover{
		List: call, Profiles: profilesToFence(c.meta, o),
		Leadership: func(ctx context.Context) (journal.Leadership, error) { return c.leadership(ctx, o, term) },
		Journal: journal.New(journal.Options{
			Client: c.journal.CoreV1().ConfigMaps(o.namespace), Holder: string(uuid.NewUUID()), Clock: clock.RealClock{},
			Go: framework.Goroutine, Wait: framework.Block, Log: log.WithName("journal"),
		}),
	}
}

// leadership is what this process knows of its own leadership. Without an election
// it is the first one while there is no Lease.
func (c clients) leadership(ctx context.Context, o options, term *leadership.Tracker) (journal.Leadership, error) {
	if o.leaderElection.LeaderElect {
		return journal.Leadership{Elected: true, Epoch: term.Epoch(), First: term.CreatedLease()}, nil
	}
	_, err := c.watches.CoordinationV1().Leases(o.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return journal.Leadership{First: true}, nil
	case err == nil, apierrors.IsForbidden(err):
		return journal.Leadership{}, nil
	}
	return journal.Leadership{}, fmt.Errorf("looking for the Lease %s: %w", leaseName, err)
}

// profileNames returns what asks for the names of the profiles whose pods may have a
// Binding under way: those that there are, and those that were deleted and have revisions
// still, which outlive their profile by a day. Names that other schedulers serve are
// left to them, unless there is such a profile. Where revisions may not be read there are
// none: history is kept in memory then.
func profilesToFence(client metadata.Interface, o options) func(ctx context.Context) ([]string, error) {
	there := leadership.NewQuorumLister(client).Names(v1alpha1.GroupVersion.WithResource("schedulingprofiles"))
	revisions := client.Resource(appsv1.SchemeGroupVersion.WithResource("controllerrevisions")).Namespace(o.namespace)
	return func(ctx context.Context) ([]string, error) {
		names, err := there(ctx)
		if err != nil || fault.DeletedProfilesUnfenced {
			return names, err
		}
		list, err := revisions.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelProfile})
		switch {
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return names, nil
		case err != nil:
			return nil, fmt.Errorf("listing revisions: %w", err)
		}
		for i := range list.Items {
			name := list.Items[i].Labels[v1alpha1.LabelProfile]
			if !slices.Contains(names, name) && !slices.Contains(o.otherSchedulers, name) {
				names = append(names, name)
			}
		}
		return names, nil
	}
}
