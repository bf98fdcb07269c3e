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
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/scheduler/recorder"
)

// leaseTolerance is how long after the end of its Lease a leader may exist before
// /livez fails: the value that kube-scheduler passes to client-go's HealthzAdaptor.
const leaseTolerance = 20 * time.Second

// lease returns the lock that elects the leader; nil when no leader is elected.
func (o options) lease(term *leadership.Tracker, config *restclient.Config, telling *recorder.Recorder) (resourcelock.Interface, error) {
	if !o.leaderElection.LeaderElect {
		term.DisableElection()
		return nil, nil
	}
	return term.NewLeaseLock(config, o.namespace, leaseName, electionRecorder{telling})
}

// electionRecorder records Events of the leader election through Berth's recorder.
type electionRecorder struct{ *recorder.Recorder }

// Eventf records that a process started or stopped leading.
func (r electionRecorder) Eventf(about runtime.Object, kind, reason, message string, args ...any) {
	r.For(eventReporter).Eventf(about, nil, kind, reason, "Election", message, args...)
}

// handover returns what the scheduler calls when this process becomes the leader.
func (c clients) handover(o options, term *leadership.Tracker, profiles scheduler.ProfileCache, log logr.Logger) scheduler.Handover {
	call := leadership.NewQuorumLister(c.meta)
	return scheduler.Handover{
		List: call, Version: leadership.NewVersionReader(c.meta), FromStart: !o.leaderElection.LeaderElect, Profiles: profilesToFence(c.meta, o), ProfileCache: profiles,
		Leadership: func(ctx context.Context) (journal.Leadership, error) { return c.leadership(ctx, o, term) },
		Journal: journal.New(journal.Options{
			Client: c.journal.CoreV1().ConfigMaps(o.namespace), Holder: string(uuid.NewUUID()), Clock: clock.RealClock{},
			Go: framework.Goroutine, Wait: framework.Block, Log: log.WithName("journal"),
		}),
	}
}

// leadership returns what this process knows of its leadership. Without leader election
// it counts as the first leader while there is no Lease.
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

// profilesToFence returns a function that lists the profiles whose pods may have a
// Binding in flight from an earlier leader: the profiles that exist, and deleted ones
// that still have revisions, which are kept for a day. It leaves out names that other
// schedulers serve, unless such a profile exists. When listing revisions is forbidden
// there are none, since the history is in memory then.
func profilesToFence(client metadata.Interface, o options) func(ctx context.Context) ([]string, error) {
	existing := leadership.NewQuorumLister(client).Names(v1alpha1.GroupVersion.WithResource("schedulingprofiles"))
	revisions := client.Resource(appsv1.SchemeGroupVersion.WithResource("controllerrevisions")).Namespace(o.namespace)
	return func(ctx context.Context) ([]string, error) {
		names, err := existing(ctx)
		if err != nil {
			return names, err
		}
		limited, cancel := context.WithTimeout(ctx, leadership.PageTimeout) // the request may be lost
		defer cancel()
		list, err := revisions.List(limited, metav1.ListOptions{LabelSelector: v1alpha1.LabelProfile})
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
