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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
func (o options) lease(term *leadership.Tracker, config *restclient.Config, telling *recorder.Recorder, hadLeader func(context.Context) bool) (resourcelock.Interface, error) {
	if !o.leaderElection.LeaderElect {
		term.DisableElection()
		return nil, nil
	}
	return term.NewLeaseLock(config, o.namespace, leaseName, electionRecorder{telling}, hadLeader)
}

// electionRecorder records Events of the leader election through Berth's recorder.
type electionRecorder struct{ *recorder.Recorder }

// Eventf records that a process started or stopped leading.
func (r electionRecorder) Eventf(about runtime.Object, kind, reason, message string, args ...any) {
	r.For(eventReporter).Eventf(about, nil, kind, reason, "Election", message, args...)
}

// handover returns what the scheduler calls when this process becomes the leader.
// hadLeader says whether there was a leader before this process, where it leads from its start.
func (c clients) handover(o options, term *leadership.Tracker, hadLeader bool, profiles scheduler.ProfileCache, log logr.Logger) scheduler.Handover {
	call := leadership.NewQuorumLister(c.meta)
	return scheduler.Handover{
		List: call, Version: leadership.NewVersionReader(c.meta), FromStart: !o.leaderElection.LeaderElect, Profiles: profilesToFence(c.meta, o), ProfileCache: profiles,
		Leadership: func(ctx context.Context) (journal.Leadership, error) { return c.leadership(ctx, o, term, hadLeader) },
		Journal: journal.New(journal.Options{
			Client: c.journal.CoreV1().ConfigMaps(o.namespace), Holder: string(uuid.NewUUID()), Clock: clock.RealClock{},
			Go: framework.Goroutine, Wait: framework.Block, Log: log.WithName("journal"),
		}),
	}
}

// leadership returns what this process knows of its leadership. Without leader election
// it counts as the first leader while there is no Lease, unless it had one before.
func (c clients) leadership(ctx context.Context, o options, term *leadership.Tracker, hadLeader bool) (journal.Leadership, error) {
	if o.leaderElection.LeaderElect {
		return journal.Leadership{Elected: true, Epoch: term.Epoch(), Lease: term.LeaseUID(), First: term.First()}, nil
	}
	_, err := c.watches.CoordinationV1().Leases(o.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return journal.Leadership{First: !hadLeader}, nil
	case err == nil, apierrors.IsForbidden(err):
		return journal.Leadership{}, nil
	}
	return journal.Leadership{}, fmt.Errorf("looking for the Lease %s: %w", leaseName, err)
}

// hadLeader reports whether profiles say that there was a leader, before this process leads: one runs
// by its status, or has revisions. Then a Binding may be in flight although there is neither a Lease
// nor a journal. An error counts as a leader: the new one then fences more than it has to.
func (c clients) hadLeader(ctx context.Context, o options) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	profiles, err := c.dynamic.Resource(v1alpha1.GroupVersion.WithResource("schedulingprofiles")).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return true
	}
	if err == nil && slices.ContainsFunc(profiles.Items, func(p unstructured.Unstructured) bool {
		_, runs, _ := unstructured.NestedFieldNoCopy(p.Object, "status", "programmed")
		return runs
	}) {
		return true
	}
	names, err := profilesWithRevisions(ctx, c.meta, o)
	return err != nil || len(names) > 0
}

// profilesWithRevisions lists the names of the profiles that have revisions, each once for each
// revision; none when listing revisions is forbidden, since the history is in memory then.
func profilesWithRevisions(ctx context.Context, client metadata.Interface, o options) ([]string, error) {
	revisions := client.Resource(appsv1.SchemeGroupVersion.WithResource("controllerrevisions")).Namespace(o.namespace)
	limited, cancel := context.WithTimeout(ctx, leadership.PageTimeout) // the request may be lost
	defer cancel()
	list, err := revisions.List(limited, metav1.ListOptions{LabelSelector: v1alpha1.LabelProfile})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing revisions: %w", err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Labels[v1alpha1.LabelProfile]
	}
	return names, nil
}

// profilesToFence returns a function that lists the profiles whose pods may have a
// Binding in flight from an earlier leader: the profiles that exist, and deleted ones
// that still have revisions, which are kept for a day. It leaves out names that other
// schedulers serve, unless such a profile exists.
func profilesToFence(client metadata.Interface, o options) func(ctx context.Context) ([]string, error) {
	existing := leadership.NewQuorumLister(client).Names(v1alpha1.GroupVersion.WithResource("schedulingprofiles"))
	return func(ctx context.Context) ([]string, error) {
		names, err := existing(ctx)
		if err != nil {
			return names, err
		}
		ran, err := profilesWithRevisions(ctx, client, o)
		if err != nil {
			return nil, err
		}
		for _, name := range ran {
			if !slices.Contains(names, name) && !slices.Contains(o.otherSchedulers, name) {
				names = append(names, name)
			}
		}
		return names, nil
	}
}
