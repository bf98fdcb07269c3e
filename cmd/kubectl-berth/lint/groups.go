package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// gangScheduling is the plugin with which a profile schedules groups.
const gangScheduling = "GangScheduling"

// groupedPods is a document whose pods name a group.
type groupedPods struct {
	title string
	key   podgroups.Key
	// profile is the name of their SchedulingProfile.
	profile string
	// err says why the group cannot be scheduled; nil for none.
	err error
}

// templatePaths are where documents have the pods that they create; the first is that of a Pod.
var templatePaths = [][]string{{}, {"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}}

// groupedPodsOf returns the pods of a document of the groups core, apps or batch that name a
// group; nil for others.
func groupedPodsOf(d manifest.Document) *groupedPods {
	if !slices.Contains([]string{"", "apps", "batch"}, d.Object.GroupVersionKind().Group) {
		return nil
	}
	for _, path := range templatePaths {
		template, found, err := unstructured.NestedMap(d.Object.Object, path...)
		pod := &corev1.Pod{}
		if !found || err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod) != nil || len(pod.Spec.Containers) == 0 {
			continue
		}
		key, grouped := podgroups.KeyOf(pod)
		if !grouped {
			return nil
		}
		profile := pod.Spec.SchedulerName
		if profile == "" {
			profile = corev1.DefaultSchedulerName
		}
		return &groupedPods{
			title: fmt.Sprintf("%s: %s/%s", d.Source, d.Object.GetKind(), d.Object.GetName()), key: key, profile: profile, err: podgroups.Validate(pod),
		}
	}
	return nil
}

// group is the name of the group, and how the pods name it.
func (g *groupedPods) group() string { return strings.TrimPrefix(g.key.String(), "/") }

// String returns a line that names the group, or two with the error.
func (g *groupedPods) String() string {
	if g.err == nil {
		return show.Wrap(g.title+": its pods name the group "+g.group(), "", "    ") + "\n"
	}
	return show.Wrap(g.title+": its group cannot be scheduled:", "", "    ") + "\n" + show.Wrap(g.err.Error(), "  ", "  ") + "\n"
}

// printGroupWarnings prints a warning for each document whose pods name a group under a
// profile that does not schedule groups. It returns the number of warnings. Profiles that are
// in no file are looked up in the cluster.
func (o *options) printGroupWarnings(ctx context.Context, files *manifest.Files, grouped []*groupedPods) (warned int) {
	profiles := map[string]*v1alpha1.SchedulingProfile{}
	for _, p := range files.Profiles() {
		profiles[p.Name] = p
	}
	if !o.offline && slices.ContainsFunc(grouped, func(g *groupedPods) bool { return profiles[g.profile] == nil }) {
		o.addProfilesOfCluster(ctx, profiles)
	}
	for _, g := range grouped {
		p := profiles[g.profile]
		if p == nil || compile.SchedulesGroups(&p.Spec, plugins.InTree()) {
			continue
		}
		warned++
		fmt.Fprintln(o.ErrOut, show.Wrap(fmt.Sprintf("Warning: %s: its pods name the group %s, and SchedulingProfile/%s does not enable %s at multiPoint: they are scheduled one by one",
			g.title, g.group(), p.Name, gangScheduling), "", "  "))
	}
	return warned
}

// addProfilesOfCluster adds the profiles of the cluster that are not there. It prints why they
// cannot be read, which is no error.
func (o *options) addProfilesOfCluster(ctx context.Context, profiles map[string]*v1alpha1.SchedulingProfile) {
	list := &v1alpha1.SchedulingProfileList{}
	failure, err := askCluster(ctx, func(ctx context.Context) error {
		c, err := o.Open(ctx)
		if err == nil {
			err = c.Client.List(ctx, list)
		}
		if err == nil || cluster.IsKindNotServed(err) {
			return nil
		}
		return cluster.UserError(err)
	})
	if err = cmp.Or(err, failure); err != nil {
		fmt.Fprintln(o.ErrOut, show.Wrap("Cannot tell whether the profiles schedule groups (--offline skips this): "+err.Error(), "", "  "))
		return
	}
	for i := range list.Items {
		if p := &list.Items[i]; profiles[p.Name] == nil {
			profiles[p.Name] = p
		}
	}
}
