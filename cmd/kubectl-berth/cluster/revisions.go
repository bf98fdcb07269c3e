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

// Revision is a revision of a profile, as Berth stores it.
type Revision struct {
	// Name is the name of the ControllerRevision: the profile's name, a dash, and the hash.
	Name, Hash string
	// Number orders the revisions of a profile; the one with the highest number ran last.
	Number int64
	// Generation is the metadata.generation of the profile at that time, and UID the UID of the
	// profile: a revision with another UID belongs to a deleted profile of that name.
	Generation int64
	UID        types.UID
	Created    metav1.Time
	// Probation: it has not run long enough to be trusted. Served: it ran for at least a minute
	// all the same. OnTrial: it passed a trial only and never ran.
	Probation, Served, OnTrial bool
	// BuildUnfinished: a process began to build it and did not swap it in.
	BuildUnfinished bool
	// BlamedFor says which crashes Berth may blame it for while it is on probation; empty for
	// none.
	BlamedFor string
	// Profile is the whole profile with its arguments inline; Data is the same as it is stored.
	Profile *v1alpha1.SchedulingProfile
	Data    []byte
	// PluginConfigs maps plugins to the PluginConfigs that their inline arguments are copied
	// from.
	PluginConfigs map[string]string
}

// HasServed reports whether it ran for at least a minute, or until its probation ended, and
// is blamed for no crash.
func (r *Revision) HasServed() bool { return r.HasRun() && (!r.Probation || r.Served) }

// HasRun reports whether it was swapped in and is blamed for no crash.
func (r *Revision) HasRun() bool { return !r.OnTrial && !r.BuildUnfinished && r.BlamedFor == "" }

// Status says in a few words what a user should know before it runs again.
func (r *Revision) Status() string {
	switch {
	case r.OnTrial:
		return "trial only, never ran"
	case r.BlamedFor != "":
		return r.BlamedFor
	case r.BuildUnfinished:
		return "build not finished"
	case r.Probation && r.Served:
		return "served, on probation"
	case r.Probation:
		return "on probation"
	}
	return "stable"
}

// Revisions returns the revisions of a profile, the newest first.
func (c *Cluster) Revisions(ctx context.Context, profile string) ([]Revision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.Client.List(ctx, list, client.InNamespace(c.BerthNamespace), client.MatchingLabels{v1alpha1.LabelProfile: profile})
	if err != nil {
		return nil, fmt.Errorf("listing the revisions of SchedulingProfile %s in namespace %s: %w", profile, c.BerthNamespace, UserError(err))
	}
	var revisions []Revision
	for i := range list.Items {
		if r, ok := revisionOf(&list.Items[i], profile); ok {
			revisions = append(revisions, r)
		}
	}
	slices.SortFunc(revisions, func(a, b Revision) int { return cmp.Compare(b.Number, a.Number) })
	return revisions, nil
}

// revisionOf reads a ControllerRevision. It returns false if it is not a revision of the
// profile.
func revisionOf(entry *appsv1.ControllerRevision, profile string) (Revision, bool) {
	p, err := v1alpha1.DecodeProfile(entry.Data.Raw)
	if err != nil || p.Name != profile {
		return Revision{}, false
	}
	annotations := entry.Annotations
	_, probation := annotations[v1alpha1.AnnotationProbation]
	p.Generation, _ = strconv.ParseInt(annotations[v1alpha1.AnnotationGeneration], 10, 64)
	return Revision{
		Name: entry.Name, Hash: strings.TrimPrefix(entry.Name, profile+"-"), Number: entry.Revision,
		Generation: p.Generation, UID: types.UID(annotations[v1alpha1.AnnotationProfileUID]), Created: entry.CreationTimestamp,
		Probation: probation, Served: annotations[v1alpha1.AnnotationServed] != "",
		BuildUnfinished: annotations[v1alpha1.AnnotationBuildBegun] != "", BlamedFor: blamedFor(annotations), OnTrial: annotations[v1alpha1.AnnotationOnTrial] != "",
		Profile: p, Data: entry.Data.Raw, PluginConfigs: pluginConfigsOf(annotations),
	}, true
}

// pluginConfigsOf reads the annotation that maps plugins to PluginConfigs.
func pluginConfigsOf(annotations map[string]string) map[string]string {
	configs := map[string]string{}
	for pair := range strings.SplitSeq(annotations[v1alpha1.AnnotationPluginConfigs], ",") {
		if plugin, config, ok := strings.Cut(pair, "="); ok {
			configs[plugin] = config
		}
	}
	return configs
}

// minBuildCrashes and minLeaderCrashes are the numbers of processes that must end while they
// build a revision, or while they run it, before Berth blames the revision.
const minBuildCrashes, minLeaderCrashes = 2, 3

// blamedFor says which crashes Berth may blame a revision with these annotations for; empty
// for none.
func blamedFor(annotations map[string]string) string {
	if annotations[v1alpha1.AnnotationCrashStack] != "" {
		return "a process crashed in its plugins"
	}
	// A value that is not a number counts as 0, as in the manager.
	if n, _ := strconv.Atoi(annotations[v1alpha1.AnnotationBuildDeaths]); n >= minBuildCrashes {
		return fmt.Sprintf("%d processes ended while building it", n)
	}
	if n := 1 + strings.Count(annotations[v1alpha1.AnnotationDeaths], ","); n >= minLeaderCrashes {
		return fmt.Sprintf("%d leaders ended while running it", n)
	}
	return ""
}

// PluginConfig returns a PluginConfig; nil if there is none of that name.
func (c *Cluster) PluginConfig(ctx context.Context, name string) (*v1alpha1.PluginConfig, error) {
	config := &v1alpha1.PluginConfig{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, config)
	if err != nil && apierrors.IsNotFound(err) && !IsKindNotServed(err) {
		return nil, nil
	}
	return config, UserError(err)
}
