package controllers

import (
	"cmp"
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
)

// defaultSchedulerName is the schedulerName that the API server gives pods which name
// no scheduler.
const defaultSchedulerName = "default-scheduler"

const (
	// otherSchedulerPollInterval is how often a profile checks whether another scheduler
	// serves its name: one that is rejected for that, and one that runs while the Lease of
	// the other scheduler does not change.
	otherSchedulerPollInterval = 10 * time.Second
	// minLeaseDuration is for how long a Lease must not change, whatever its duration:
	// the default of kube-scheduler. One that ends gracefully writes a duration of one second
	// into its Lease, and may only be restarting.
	minLeaseDuration = 15 * time.Second
)

// OtherSchedulers says which schedulers run beside Berth.
type OtherSchedulers struct {
	// Names are the schedulerNames that they serve. Explicit says that the user set
	// them: a profile cannot take over such a name. Otherwise they are the default of
	// the flag.
	Names    []string
	Explicit bool
	// Lease is the Lease of the scheduler that serves default-scheduler; nil when it is
	// not known. None says that no other scheduler serves that name, as the user has
	// set.
	Lease *types.NamespacedName
	None  bool
}

// servedElsewhere returns a Rejection of a profile whose pods another scheduler serves,
// or may serve: two schedulers that each count a node's free resources as theirs
// overcommit it. It returns nil when no other scheduler does, or when the profile's
// annotation takes the name over. It returns an error when the check failed for a name
// that Berth serves already, and may succeed later by itself.
func (r *profileReconciler) servedElsewhere(ctx context.Context, p *v1alpha1.SchedulingProfile) (*compile.Rejection, error) {
	others := r.options.OtherSchedulers
	switch {
	case others.Explicit && slices.Contains(others.Names, p.Name):
		return rejectServedElsewhere("--other-schedulers says that another scheduler serves pods of this name; take it out of the flag, or give the profile another name"), nil
	case !r.mayBeServedElsewhere(p):
		return nil, nil
	case others.Lease == nil:
		return rejectServedElsewhere("it is not known whether another scheduler serves pods of this name: start Berth with --other-scheduler-lease and "+
			"the Lease of that scheduler, such as kube-system/kube-scheduler, or with --other-scheduler-lease=none where there is none; "+
			"or take over with: %s", takeOverCommand(p)), nil
	}
	lease, asked := &coordinationv1.Lease{}, r.options.Clock.Now()
	err := request(ctx, func(ctx context.Context) error { return r.live.Get(ctx, *others.Lease, lease) })
	switch {
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && r.running(p.Name) != nil:
		return nil, fmt.Errorf("looking for another scheduler, Lease %s: %w", others.Lease, err)
	case err != nil:
		return rejectServedElsewhere("the Lease %s does not say whether another scheduler serves pods of this name: %v; "+
			"name another one with --other-scheduler-lease, or none where no such scheduler runs, or take over with: %s", others.Lease, err, takeOverCommand(p)), nil
	case r.otherLease.expired(lease, asked, r.options.Clock.Now()):
		return nil, nil
	}
	return r.rejectLeaseInUse(p, lease), nil
}

// mayBeServedElsewhere reports whether the Lease of another scheduler decides whether the
// profile is accepted.
func (r *profileReconciler) mayBeServedElsewhere(p *v1alpha1.SchedulingProfile) bool {
	return p.Name == defaultSchedulerName && p.Annotations[v1alpha1.AnnotationTakeOver] != "true" && !r.options.OtherSchedulers.None
}

// rejectLeaseInUse returns the Rejection of a profile while the Lease of another scheduler
// changes. What the profile runs goes on, as after every rejection: the pods would otherwise
// wait for any client that touches the Lease, and to hold them would replace the conditions
// that the other scheduler writes.
func (r *profileReconciler) rejectLeaseInUse(p *v1alpha1.SchedulingProfile, lease *coordinationv1.Lease) *compile.Rejection {
	holder, name := cmp.Or(ptr.Deref(lease.Spec.HolderIdentity, ""), "another scheduler"), r.options.OtherSchedulers.Lease
	if r.running(p.Name) != nil {
		return rejectServedElsewhere("pods of this name are scheduled by %s as well, whose Lease %s changes again; "+
			"stop it, or pause or delete this profile, or take over with: %s", holder, name, takeOverCommand(p))
	}
	return rejectServedElsewhere("pods of this name are scheduled by %s, unless it lets the Lease %s lapse, for which Berth watches; stop it, or take over with: %s",
		holder, name, takeOverCommand(p))
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

// observedLease is a Lease and when this process saw it change last. It does not use
// the times in the Lease, which are of its holder's clock. It is safe for concurrent
// use.
type observedLease struct {
	mu              sync.Mutex
	uid             types.UID
	resourceVersion string
	since           time.Time
}

// expired reports whether the Lease has not changed for its duration, and for
// minLeaseDuration at least, since this process first saw its present resourceVersion. asked
// and answered are the times before and after the Lease was read: the Lease may have changed
// in between, where the process was frozen.
func (o *observedLease) expired(lease *coordinationv1.Lease, asked, answered time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.uid != lease.UID || o.resourceVersion != lease.ResourceVersion {
		o.uid, o.resourceVersion, o.since = lease.UID, lease.ResourceVersion, answered
	}
	return asked.Sub(o.since) >= leaseDuration(lease)
}

func leaseDuration(lease *coordinationv1.Lease) time.Duration {
	return max(minLeaseDuration, time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0))*time.Second)
}
