package ui

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/diff"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// specHash stands for the spec of a profile, as it is applied now.
const specHash = "spec"

// Revisions are the revisions of a profile, the newest first.
type Revisions struct {
	Profile string `json:"profile"`
	// Running is the hash of what is running, empty for nothing.
	Running   string     `json:"running"`
	Revisions []Revision `json:"revisions"`
}

// Revision is one revision.
type Revision struct {
	Hash   string `json:"hash"`
	Number int64  `json:"number"`
	// Generation is the metadata.generation of the profile at that time.
	Generation int64       `json:"generation"`
	Created    metav1.Time `json:"created"`
	// Status says in a few words what a user should know before the revision runs again.
	Status  string `json:"status"`
	Running bool   `json:"running"`
}

// revisions answers GET /api/profiles/{name}/revisions.
func (s *server) revisions(r *http.Request) (any, error) {
	name := r.PathValue("name")
	p, stored, err := s.profileAndRevisions(r.Context(), name)
	if err != nil {
		return nil, err
	}
	all := Revisions{Profile: name, Revisions: []Revision{}}
	running := ""
	if p != nil && p.Status.Programmed != nil {
		all.Running, running = p.Status.Programmed.Hash, p.Status.Programmed.Revision
	}
	for i := range stored {
		rev := &stored[i]
		all.Revisions = append(all.Revisions, Revision{
			Hash: rev.Hash, Number: rev.Number, Generation: rev.Generation, Created: rev.Created, Status: rev.Status(), Running: rev.Name == running,
		})
	}
	return all, nil
}

// profileAndRevisions returns a profile and its revisions. The profile is nil if it is
// deleted; it is an error if there is no revision either.
func (s *server) profileAndRevisions(ctx context.Context, name string) (*v1alpha1.SchedulingProfile, []cluster.Revision, error) {
	profiles, err := s.cluster.Profiles(ctx)
	if err != nil {
		return nil, nil, err
	}
	found := cluster.FindProfile(profiles, name)
	missing := &apiError{http.StatusNotFound, cluster.ProfileNotFound(name, cluster.ProfileNames(profiles))}
	if found == nil && len(validation.IsValidLabelValue(name)) > 0 {
		return nil, nil, missing
	}
	revisions, err := s.cluster.Revisions(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if found == nil && len(revisions) == 0 {
		return nil, nil, missing
	}
	return found, revisions, nil
}

// Comparison says how two revisions of a profile differ.
type Comparison struct {
	Profile  string         `json:"profile"`
	From     Side           `json:"from"`
	To       Side           `json:"to"`
	Sections []diff.Section `json:"sections"`
	// Equal are the titles of sections without a difference.
	Equal []string `json:"equal"`
	// Trial is the newest trial of the profile, if it was of To.
	Trial *Trial `json:"trial"`
}

// Side is one of the two that are compared.
type Side struct {
	// Hash is that of a revision, or "spec".
	Hash  string `json:"hash"`
	Title string `json:"title"`
}

// diff answers GET /api/profiles/{name}/diff.
func (s *server) diff(r *http.Request) (any, error) {
	name, parameters := r.PathValue("name"), r.URL.Query()
	p, stored, err := s.profileAndRevisions(r.Context(), name)
	if err != nil {
		return nil, err
	}
	from, err := s.compile(r.Context(), parameters.Get("from"), p, stored)
	if err != nil {
		return nil, err
	}
	to, err := s.compile(r.Context(), parameters.Get("to"), p, stored)
	if err != nil {
		return nil, err
	}
	c := Comparison{Profile: name, From: Side{from.Hash, from.Title}, To: Side{to.Hash, to.Title}}
	sections, equal, err := diff.Compare(from.Blueprint, to.Blueprint)
	if err != nil {
		return nil, err
	}
	c.Sections, c.Equal = append([]diff.Section{}, sections...), append([]string{}, equal...)
	if p != nil && p.Status.Trial != nil && p.Status.Trial.Hash == to.Hash {
		c.Trial = trialOf(p.Status.Trial)
	}
	return c, nil
}

// compile compiles the revision with a hash, or the spec, of profile p, which is nil if it is
// deleted.
func (s *server) compile(ctx context.Context, hash string, p *v1alpha1.SchedulingProfile, stored []cluster.Revision) (*state.Profile, error) {
	reader := state.Reader{Cluster: s.cluster, Note: func(string, ...any) {}}
	source, title := (*v1alpha1.SchedulingProfile)(nil), ""
	switch {
	case hash == "":
		return nil, &apiError{http.StatusBadRequest, "from and to: must be the hashes of revisions, or spec."}
	case hash == specHash && p == nil:
		return nil, &apiError{http.StatusNotFound, "The profile is deleted: it has no spec."}
	case hash == specHash:
		source, title = p, fmt.Sprintf("spec, generation %d", p.Generation)
	}
	for i := range stored {
		if stored[i].Hash == hash {
			source, title = stored[i].Profile, fmt.Sprintf("revision %d, generation %d", stored[i].Number, stored[i].Generation)
		}
	}
	if source == nil {
		return nil, &apiError{http.StatusNotFound, fmt.Sprintf("No revision has the hash %q.", hash)}
	}
	compiled, err := reader.Compile(ctx, title, source, nil)
	if err != nil {
		return nil, err
	}
	compiled.Hash = hash
	return compiled, nil
}
