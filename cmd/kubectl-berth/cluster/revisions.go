package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Revision is one that ran of a profile, as Berth keeps it.
type Revision struct {
	// Name is the ControllerRevision's: the profile's, a dash, and the hash.
	Name, Hash string
	// Number orders a profile's revisions; the highest ran last.
	Number int64
	// Generation is the profile's metadata.generation that it was, and UID the
	// profile's: one of another UID was of another profile of that name.
	Generation int64
	UID        types.UID
	Created    metav1.Time
	// Probation says that it has not run long enough to be trusted, Served that it
	// ran for a minute all the same, OnTrial that it never ran.
	Probation, Served, OnTrial bool
	// Building says that a process began to build it and did not swap it in.
	BuildUnfinished bool
	// Blamed says for what it is blamed while it is on probation; empty: it is not.
	BlamedFor string
	// Profile is the whole of it, arguments inline; Data the same as it is stored.
	Profile *v1alpha1.SchedulingProfile
	Data    []byte
	// Configs names by plugin the PluginConfigs whose arguments are inline.
	PluginConfigs map[string]string
	// Entry is the whole as it is stored.
	Stored *appsv1.ControllerRevision
}

// HasServed says whether it ran for a minute, or until it was proved, and is blamed
// for nothing.
func (r *Revision) HasServed() bool { return r.HasRun() && (!r.Probation || r.Served) }

// HasRun says whether it was swapped in and is blamed for nothing.
func (r *Revision) HasRun() bool { return !r.OnTrial && !r.BuildUnfinished && r.BlamedFor == "" }

// Standing says in words what is to be known of it before it is run again.
func (r *Revision) Status() string {
	switch {
	case r.OnTrial:
		return "tried only, never ran"
	case r.BlamedFor != "":
		return r.BlamedFor
	case r.BuildUnfinished:
		return "not swapped in"
	case r.Probation && r.Served:
		return "served, on probation"
	case r.Probation:
		return "on probation"
	}
	return "proved itself"
}

// Revisions returns those of a profile, the newest first.
func (c *Cluster) Revisions(ctx context.Context, profile string) ([]Revision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.Client.List(ctx, list, client.InNamespace(c.BerthNamespace), client.MatchingLabels{v1alpha1.LabelProfile: profile})
	if err != nil {
		return nil, fmt.Errorf("the revisions of SchedulingProfile %s, in namespace %s: %w", profile, c.BerthNamespace, UserError(err))
	}
	var revisions []Revision
	for i := range list.Items {
		if r, ours := revisionOf(&list.Items[i], profile); ours {
			revisions = append(revisions, r)
		}
	}
	slices.SortFunc(revisions, func(a, b Revision) int { return cmp.Compare(b.Number, a.Number) })
	return revisions, nil
}

// revisionOf reads an entry; false when it is none of the profile's.
func revisionOf(entry *appsv1.ControllerRevision, profile string) (Revision, bool) {
	p, err := v1alpha1.DecodeProfile(entry.Data.Raw)
	if err != nil || p.Name != profile {
		return Revision{}, false
	}
	marks := entry.Annotations
	_, probation := marks[v1alpha1.AnnotationProbation]
	p.Generation, _ = strconv.ParseInt(marks[v1alpha1.AnnotationGeneration], 10, 64)
	return Revision{
		Name: entry.Name, Hash: strings.TrimPrefix(entry.Name, profile+"-"), Number: entry.Revision,
		Generation: p.Generation, UID: types.UID(marks[v1alpha1.AnnotationProfileUID]), Created: entry.CreationTimestamp,
		Probation: probation, Served: marks[v1alpha1.AnnotationServed] != "",
		BuildUnfinished: marks[v1alpha1.AnnotationBuildBegun] != "", BlamedFor: blamedFor(marks), OnTrial: marks[v1alpha1.AnnotationOnTrial] != "",
		Profile: p, Data: entry.Data.Raw, PluginConfigs: pluginConfigsOf(marks), Stored: entry,
	}, true
}

// configsOf reads which PluginConfigs gave arguments.
func pluginConfigsOf(marks map[string]string) map[string]string {
	configs := map[string]string{}
	for pair := range strings.SplitSeq(marks[v1alpha1.AnnotationPluginConfigs], ",") {
		if plugin, config, ok := strings.Cut(pair, "="); ok {
			configs[plugin] = config
		}
	}
	return configs
}

// How many ends of processes make Berth blame a revision at the earliest: while they
// built it, and while they ran it.
const minBuildCrashes, minLeaderCrashes = 2, 3

// blamed says for what the marks of a revision may have it blamed.
func blamedFor(marks map[string]string) string {
	if marks[v1alpha1.AnnotationCrashStack] != "" {
		return "a process crashed in its plugins"
	}
	// What is no number counts as none, as it does for Berth.
	if n, _ := strconv.Atoi(marks[v1alpha1.AnnotationBuildDeaths]); n >= minBuildCrashes {
		return fmt.Sprintf("%d processes died while they built it", n)
	}
	if n := 1 + strings.Count(marks[v1alpha1.AnnotationDeaths], ","); n >= minLeaderCrashes {
		return fmt.Sprintf("%d leaders died while they ran it", n)
	}
	return ""
}

// PluginConfig returns one; nil where there is none of that name.
func (c *Cluster) PluginConfig(ctx context.Context, name string) (*v1alpha1.PluginConfig, error) {
	config := &v1alpha1.PluginConfig{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, config)
	if err != nil && apierrors.IsNotFound(err) && !IsKindNotServed(err) {
		return nil, nil
	}
	return config, UserError(err)
}
