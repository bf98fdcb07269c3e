package rollback

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// Revisions are those of a profile, the newest first, as -o json has them.
type Revisions struct {
	Profile   string     `json:"profile"`
	Revisions []Revision `json:"revisions"`
}

// Revision is one of them.
type Revision struct {
	// Revision orders them; the highest ran last.
	Revision int64  `json:"revision"`
	Name     string `json:"name"`
	Hash     string `json:"hash"`
	// Generation is the profile's that it was.
	Generation int64 `json:"generation"`
	// Standing says in words what there is to know of it before it runs again.
	Status string `json:"standing"`
	// HasServed says that a rollback chooses it without --to.
	HasServed bool `json:"hasServed"`
	// Runs says that it runs now.
	Running bool `json:"runs"`
	// OfThisProfile is false for one of a profile of the same name that was deleted.
	OfThisProfile bool `json:"ofThisProfile"`
	// PluginConfigs names by plugin those whose arguments are inline.
	PluginConfigs map[string]string `json:"pluginConfigs,omitempty"`
	Created       metav1.Time       `json:"created"`
}

// print lists revisions, the newest first.
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
		of, runs := "this profile", ""
		switch {
		case there == nil:
			of = "a deleted profile"
		case !r.OfThisProfile:
			of = "one before it"
		}
		if r.Running {
			runs = "now"
		}
		rows = append(rows, []any{r.Revision, r.Name, r.Generation, r.Status, of, runs, show.Age(r.Created, o.Now())})
	}
	return show.NewTable(o.Out, false, show.Columns("Revision", "Name", "Generation", "Standing", "Of", "Runs", "Age")).Print(rows...)
}
