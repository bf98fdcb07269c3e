package preemption

import (
	"context"
	"errors"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// errTaken ends a search in whose slices other pods took what the group was decided for.
var errTaken = errors.New("other pods took what the group was decided for")

// searchSlices are the slices of the search for the victims of a group: the session of mutations
// is suspended between them. The pods of the group do not count for others then, since they fit
// only without their victims. What plugins have reserved for them does.
type searchSlices struct {
	framework.GroupSlices
	snapshot framework.MutableSnapshot
	// taken says that other pods were tried.
	taken bool
	// checked says that fit is set: whether the group passes Filter without its victims. It
	// does not where nominations of its own pods are in its way.
	checked, fit bool
}

// slicesOf returns the slices of a request; nil where it has none.
func slicesOf(r framework.GroupPreemptionRequest) *searchSlices {
	state, ours := r.State.(*framework.GroupCycleState)
	snapshot, suspends := r.Handle.MutableSnapshotSharedLister().(framework.MutableSnapshot)
	if !ours || !suspends || state.Slices() == nil {
		return nil
	}
	return &searchSlices{GroupSlices: state.Slices(), snapshot: snapshot}
}

// TakeOthers implements framework.GroupSlices.
func (s *searchSlices) TakeOthers(group []*framework.PodInfo, _ bool) {
	s.taken = true
	s.snapshot.SuspendMutations(func() { s.GroupSlices.TakeOthers(group, false) })
}

// schedule decides about the group without its victims.
func (g *groupDryRun) schedule(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
	if g.slices == nil {
		return g.request.Schedule(ctx)
	}
	assignments, status := g.request.Schedule(framework.ContextWithSlices(ctx, g.slices))
	if !status.IsSuccess() && g.slices.taken {
		status = fwk.AsStatus(errTaken)
	}
	return assignments, status
}

// takeOthers lets the loop take other work, if a slice is over. It returns errTaken if the group
// does not fit after that as it did before: then each victim would seem to be in its way.
func (g *groupDryRun) takeOthers(ctx context.Context) error {
	s := g.slices
	if s == nil || !s.Over() {
		return nil
	}
	filters := g.filters // these are no calls for a victim
	defer func() { g.filters = filters }()
	if !s.checked {
		var err error
		if s.fit, err = g.fits(ctx, g.assigned); err != nil {
			return err
		}
		s.checked = true
	}
	s.TakeOthers(nil, false) // nothing is reserved now
	if !s.fit {
		return nil
	}
	if fits, err := g.fits(ctx, g.assigned); err != nil || !fits { // an error where a node is gone
		return errTaken
	}
	return nil
}

// refresh gives a victim that is away the versions of its pods as of the last slice. It returns false
// where none of them is on its node any more: such a victim is neither put back nor evicted.
func (s *searchSlices) refresh(v *victim) bool {
	if s == nil || !s.taken {
		return true
	}
	var pods []fwk.PodInfo
	for info := range v.pods() {
		if present := s.snapshot.RemovedPod(framework.OriginalPod(info).UID, nodeNameOf(info)); present != nil {
			pods = append(pods, present)
		}
	}
	if len(pods) == 0 {
		return false
	}
	v.PodInfo, v.others = pods[0], pods[1:]
	return true
}
