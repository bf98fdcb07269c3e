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

// choice is the revision to go back to.
type choice struct {
	*cluster.Revision
	// undone are the revisions after it that are left behind, what runs among them,
	// the newest first.
	undone []*cluster.Revision
}

// choose returns the revision that was asked for, among those of a profile, the
// newest first; there is the profile, nil for a deleted one. Without a wish it is the
// last that served, or, where none did, the last that ran: what runs is chosen only
// where the profile as it is written does not run.
func choose(to string, revisions []cluster.Revision, there *v1alpha1.SchedulingProfile) (choice, error) {
	if to != "" {
		at := slices.IndexFunc(revisions, func(r cluster.Revision) bool {
			return to == r.Name || to == r.Hash || to == strconv.FormatInt(r.Number, 10)
		})
		if at < 0 {
			return choice{}, fmt.Errorf("--to: SchedulingProfile %s has no revision %q; it has %s", revisions[0].Profile.Name, to, revisionList(revisions))
		}
		return choiceAt(revisions, at), nil
	}
	runs := runningRevision(revisions, there)
	before := func(r cluster.Revision) bool {
		return runs == nil || r.Number < runs.Number || r.Name == runs.Name && !runsAsWritten(there)
	}
	for _, fit := range []func(*cluster.Revision) bool{(*cluster.Revision).HasServed, (*cluster.Revision).HasRun} {
		if at := slices.IndexFunc(revisions, func(r cluster.Revision) bool { return before(r) && fit(&r) }); at >= 0 {
			return choiceAt(revisions, at), nil
		}
	}
	return choice{}, noChoiceError(revisions, runs)
}

func choiceAt(revisions []cluster.Revision, at int) choice {
	c := choice{Revision: &revisions[at]}
	for i := range at {
		c.undone = append(c.undone, &revisions[i])
	}
	return c
}

// nothing says why no revision is chosen without having been asked for.
func noChoiceError(revisions []cluster.Revision, runs *cluster.Revision) error {
	profile := revisions[0].Profile.Name
	if len(revisions) == 1 && runs != nil {
		return fmt.Errorf("there is nothing to roll SchedulingProfile %s back to: what runs, %s, is its only revision", profile, revisionList(revisions))
	}
	return fmt.Errorf("there is nothing to roll SchedulingProfile %s back to: no other revision ran without being blamed for crashes; "+
		"name one with --to: there are %s", profile, revisionList(revisions))
}

// running is the revision that runs; nil where none is known to.
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

// asWritten says whether the profile as it is written runs.
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
