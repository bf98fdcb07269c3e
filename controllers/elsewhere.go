package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
)

// defaultScheduler is the name that pods ask for which name no scheduler.
const defaultSchedulerName = "default-scheduler"

// elsewherePause is how often it is looked whether somebody serves that name still.
const otherSchedulerPollInterval = 10 * time.Second

// OtherSchedulers is what this process is told about schedulers beside Berth.
type OtherSchedulers struct {
	// Names are the schedulerNames that they serve. Given says that somebody named them:
	// nobody takes over such a name. Otherwise they are the flag's default.
	Names    []string
	Explicit bool
	// Lease is held by the scheduler that serves default-scheduler, and nil where that is
	// not known. Nobody says that nobody serves it.
	Lease *types.NamespacedName
	None  bool
}

// servedElsewhere rejects a profile whose pods somebody else schedules, or may schedule:
// two schedulers that each believe a node's room to be theirs overcommit it. nil when
// nobody does, or the profile says that it takes over. The error says that it is not known
// for now whether somebody serves a name that Berth has served until now.
func (r *profileReconciler) servedElsewhere(ctx context.Context, p *v1alpha1.SchedulingProfile) (*compile.Rejection, error) {
	others := r.options.OtherSchedulers
	switch {
	case others.Explicit && slices.Contains(others.Names, p.Name):
		return rejectServedElsewhere("--other-schedulers says that another scheduler serves pods of this name; take it out of the flag, or give the profile another name"), nil
	case p.Name != defaultSchedulerName, p.Annotations[v1alpha1.AnnotationTakeOver] == "true", others.None:
		return nil, nil
	case others.Lease == nil:
		return rejectServedElsewhere("it is not known whether another scheduler serves pods of this name: start Berth with --other-scheduler-lease and "+
			"the Lease of that scheduler, such as kube-system/kube-scheduler, or with --other-scheduler-lease=none where there is none; "+
			"or take over with: %s", takeOverCommand(p)), nil
	}
	lease := &coordinationv1.Lease{}
	if err := r.live.Get(ctx, *others.Lease, lease); err != nil && !apierrors.IsNotFound(err) && r.running(p.Name) != nil {
		return nil, fmt.Errorf("looking for another scheduler, Lease %s: %w", others.Lease, err)
	} else if err != nil {
		return rejectServedElsewhere("the Lease %s does not say whether another scheduler serves pods of this name: %v; "+
			"name another one with --other-scheduler-lease, or none where no such scheduler runs, or take over with: %s", others.Lease, err, takeOverCommand(p)), nil
	}
	if r.otherLease.expired(lease, r.options.Clock.Now()) {
		return nil, nil
	}
	return rejectServedElsewhere("pods of this name are scheduled by %s, unless it lets the Lease %s lapse, for which Berth watches; stop it, or take over with: %s",
		ptr.Deref(lease.Spec.HolderIdentity, "somebody"), others.Lease, takeOverCommand(p)), nil
}

func takeOverCommand(p *v1alpha1.SchedulingProfile) string {
	return fmt.Sprintf("kubectl annotate sprof %s %s=true", p.Name, v1alpha1.AnnotationTakeOver)
}

func rejectServedElsewhere(format string, args ...any) *compile.Rejection {
	return &compile.Rejection{Errors: []compile.FieldError{{
		Condition: string(v1alpha1.ConditionAccepted), Reason: string(v1alpha1.ReasonNameServedElsewhere), Path: "metadata.name",
		Detail: fmt.Sprintf(format, args...),
	}}}
}

// observedLease is a Lease as this process saw it. The times that its holder writes are
// those of another clock. It is safe for concurrent use.
type observedLease struct {
	mu              sync.Mutex
	uid             types.UID
	resourceVersion string
	since           time.Time
}

// lapsed says whether the Lease has not changed for its duration, 15 s where it names
// none, since this process saw it first as it is.
func (o *observedLease) expired(lease *coordinationv1.Lease, now time.Time) bool {
	if fault.LeaseTimesBelieved && lease.Spec.RenewTime != nil {
		return !now.Before(lease.Spec.RenewTime.Add(leaseDuration(lease)))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.uid != lease.UID || o.resourceVersion != lease.ResourceVersion {
		o.uid, o.resourceVersion, o.since = lease.UID, lease.ResourceVersion, now
	}
	return now.Sub(o.since) >= leaseDuration(lease)
}

func leaseDuration(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
}
