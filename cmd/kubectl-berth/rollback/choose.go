package rollback

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
)

// choice is the revision to roll back to.
type choice struct {
	*cluster.Revision
	// undone are the later revisions, the running one among them, the newest first.
	undone []*cluster.Revision
}

// choose returns the revision that to selects among the revisions of a profile, the newest
// first; there is the profile, nil for a deleted one. If to is empty, it is the last
// revision that served, or, if none did, the last one that ran. The running revision is
// chosen only if the spec of the profile is not running.
func choose(to string, revisions []cluster.Revision, there *v1alpha1.SchedulingProfile) (choice, error) {
	if to != "" {
		at := slices.IndexFunc(revisions, func(r cluster.Revision) bool {
			return to == r.Name || to == r.Hash || to == strconv.FormatInt(r.Number, 10)
		})
		if at < 0 {
			return choice{}, fmt.Errorf("--to: SchedulingProfile %s has no revision %q; existing revisions: %s", revisions[0].Profile.Name, to, revisionList(revisions))
		}
		return choiceAt(revisions, at), nil
	}
	current := runningRevision(revisions, there)
	before := func(r cluster.Revision) bool {
		return current == nil || r.Number < current.Number || r.Name == current.Name && !runsAsWritten(there)
	}
	for _, fit := range []func(*cluster.Revision) bool{(*cluster.Revision).HasServed, (*cluster.Revision).HasRun} {
		if at := slices.IndexFunc(revisions, func(r cluster.Revision) bool { return before(r) && fit(&r) }); at >= 0 {
			return choiceAt(revisions, at), nil
		}
	}
	return choice{}, noChoiceError(revisions, current)
}

func choiceAt(revisions []cluster.Revision, at int) choice {
	c := choice{Revision: &revisions[at]}
	for i := range at {
		c.undone = append(c.undone, &revisions[i])
	}
	return c
}

// noChoiceError returns the error if no revision can be chosen without --to.
func noChoiceError(revisions []cluster.Revision, current *cluster.Revision) error {
	profile := revisions[0].Profile.Name
	if len(revisions) == 1 && current != nil {
		return fmt.Errorf("no revision to roll SchedulingProfile %s back to: the running one, %s, is the only one", profile, revisionList(revisions))
	}
	return fmt.Errorf("no revision to roll SchedulingProfile %s back to: no other revision ran without being blamed for crashes; "+
		"select one with --to: %s", profile, revisionList(revisions))
}

// runningRevision returns the running revision; nil if it is not known.
func runningRevision(revisions []cluster.Revision, there *v1alpha1.SchedulingProfile) *cluster.Revision {
	if there == nil || there.Status.Programmed == nil {
		return nil
	}
	at := slices.IndexFunc(revisions, func(r cluster.Revision) bool { return r.Name == there.Status.Programmed.Revision })
	if at < 0 {
		return nil
	}
	return &revisions[at]
}

// runsAsWritten reports whether the spec of the profile is running.
func runsAsWritten(p *v1alpha1.SchedulingProfile) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
}

func revisionList(revisions []cluster.Revision) string {
	var names []string
	for i := range revisions {
		names = append(names, describeRevision(&revisions[i]))
	}
	return strings.Join(names, ", ")
}

func describeRevision(r *cluster.Revision) string {
	return fmt.Sprintf("%d (%s, %s)", r.Number, r.Name, r.Status())
}
