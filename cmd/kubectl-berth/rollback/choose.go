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

// choose returns the revision that was asked for, among those of a profile, the
// newest first; there is the profile, nil for a deleted one.
func choose(to string, revisions []cluster.Revision, there *v1alpha1.SchedulingProfile) (*cluster.Revision, error) {
	if to != "" {
		at := slices.IndexFunc(revisions, func(r cluster.Revision) bool {
			return to == r.Name || to == r.Hash || to == strconv.FormatInt(r.Number, 10)
		})
		if at < 0 {
			return nil, fmt.Errorf("--to: there is no revision %q; there are %s", to, listed(revisions))
		}
		return &revisions[at], nil
	}
	below := int64(-1) // any
	if runs := running(revisions, there); runs != nil {
		if !asWritten(there) {
			return runs, nil
		}
		below = runs.Number
	}
	for i := range revisions {
		r := &revisions[i]
		if !r.OnTrial && r.Blamed == "" && (below < 0 || r.Number < below) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("nothing that can be trusted ran before; name one with --to: there are %s", listed(revisions))
}

// running is the revision that runs; nil where none is known to.
func running(revisions []cluster.Revision, there *v1alpha1.SchedulingProfile) *cluster.Revision {
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
func asWritten(p *v1alpha1.SchedulingProfile) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
}

func listed(revisions []cluster.Revision) string {
	var names []string
	for _, r := range revisions {
		names = append(names, fmt.Sprintf("%d (%s, %s)", r.Number, r.Name, r.Standing()))
	}
	return strings.Join(names, ", ")
}
