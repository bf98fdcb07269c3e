package rollback

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// Revisions is the output of --list -o json, the newest first.
type Revisions struct {
	Profile   string     `json:"profile"`
	Revisions []Revision `json:"revisions"`
}

// Revision is one revision.
type Revision struct {
	// Revision orders the revisions; the one with the highest number ran last.
	Revision int64  `json:"revision"`
	Name     string `json:"name"`
	Hash     string `json:"hash"`
	// Generation is the metadata.generation of the profile at that time.
	Generation int64 `json:"generation"`
	// Status says in a few words what a user should know before the revision runs again.
	Status string `json:"status"`
	// HasServed: a rollback without --to may choose it.
	HasServed bool `json:"hasServed"`
	// Running: it is running now.
	Running bool `json:"running"`
	// OfThisProfile is false for a revision of a deleted profile of the same name.
	OfThisProfile bool `json:"ofThisProfile"`
	// PluginConfigs maps plugins to the PluginConfigs that their inline arguments are copied
	// from.
	PluginConfigs map[string]string `json:"pluginConfigs,omitempty"`
	Created       metav1.Time       `json:"created"`
}

// printRevisions prints the revisions, the newest first.
func (o *options) printRevisions(revisions []cluster.Revision, there *v1alpha1.SchedulingProfile) error {
	list := Revisions{Profile: revisions[0].Profile.Name}
	for i := range revisions {
		r := &revisions[i]
		list.Revisions = append(list.Revisions, Revision{
			Revision: r.Number, Name: r.Name, Hash: r.Hash, Generation: r.Generation, Status: r.Status(), HasServed: r.HasServed(),
			Running:       there != nil && there.Status.Programmed != nil && there.Status.Programmed.Revision == r.Name,
			OfThisProfile: there != nil && r.UID == there.UID, PluginConfigs: r.PluginConfigs, Created: r.Created,
		})
	}
	if o.output.Structured() {
		return o.output.Print(o.Out, list)
	}
	var rows [][]any
	for _, r := range list.Revisions {
		profile, running := "current", "no"
		switch {
		case there == nil:
			profile = "deleted"
		case !r.OfThisProfile:
			profile = "earlier"
		}
		if r.Running {
			running = "yes"
		}
		rows = append(rows, []any{r.Revision, r.Name, r.Generation, r.Status, profile, running, show.Age(r.Created, o.Now())})
	}
	return show.NewTable(o.Out, false, show.Columns("Revision", "Name", "Generation", "Status", "Profile", "Running", "Age")).Print(rows...)
}
