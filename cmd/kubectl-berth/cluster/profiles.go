package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// maxNames is the most names that an error lists.
const maxNames = 10

// rewatchDelay is the time between the end of a watch and the next one.
const rewatchDelay = time.Second

// Profiles returns the SchedulingProfiles with the given names, or all, sorted by name. The
// error names those that do not exist and suggests similar names.
func (c *Cluster) Profiles(ctx context.Context, names ...string) ([]v1alpha1.SchedulingProfile, error) {
	list, err := c.listProfiles(ctx)
	if err != nil {
		return nil, UserError(err)
	}
	if err := checkNames(list.Items, names); err != nil {
		return nil, err
	}
	return selectByName(list.Items, names), nil
}

// Profile returns one SchedulingProfile.
func (c *Cluster) Profile(ctx context.Context, name string) (*v1alpha1.SchedulingProfile, error) {
	found, err := c.Profiles(ctx, name)
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// WatchProfiles calls begin with the profiles of the given names, or all, and then change
// for each change of one of them, until ctx ends or begin or change returns an error. change
// may be called for a profile that did not change. An API server that was watched and does not
// answer any more is asked again, for as long as that takes; notes get a line then.
func (c *Cluster) WatchProfiles(ctx context.Context, names []string, notes io.Writer, begin func([]v1alpha1.SchedulingProfile) error, change func(p *v1alpha1.SchedulingProfile, gone bool) error) error {
	list, err := c.listProfiles(ctx)
	if err != nil {
		return UserError(err)
	}
	if err := checkNames(list.Items, names); err != nil {
		return err
	}
	selected, there := selectByName(list.Items, names), map[string]*v1alpha1.SchedulingProfile{}
	for i := range selected {
		there[selected[i].Name] = &selected[i]
	}
	if err := begin(selected); err != nil {
		return err
	}
	some := func(p *v1alpha1.SchedulingProfile, gone bool) error {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			return nil
		}
		if there[p.Name] = p; gone {
			delete(there, p.Name)
		}
		return change(p, gone)
	}
	return c.followProfiles(ctx, list.ResourceVersion, there, &outage{notes: notes}, some)
}

// followProfiles calls change for each change since a resource version, until ctx ends or change
// returns an error. there are the profiles at that version, which change keeps up to date.
func (c *Cluster) followProfiles(ctx context.Context, version string, there map[string]*v1alpha1.SchedulingProfile, o *outage, change func(*v1alpha1.SchedulingProfile, bool) error) (err error) {
	listed := true
	for ctx.Err() == nil {
		if !listed { // the version is too old to watch from
			version, listed, err = c.listChanges(ctx, there, o, change)
		}
		if listed && err == nil {
			version, err = c.watchFrom(ctx, version, o, change)
			listed = version != ""
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchDelay):
		}
	}
	return nil
}

// outage is a time in which the API server cannot be watched.
type outage struct {
	notes io.Writer
	// watched: a watch began before. noted: notes have a line about this outage.
	watched, noted bool
}

// end records that a watch began.
func (o *outage) end() { o.watched, o.noted = true, false }

// check returns the error of a request, for the user, unless the request is to be repeated: the API
// server may be restarting.
func (o *outage) check(err error) error {
	if !o.watched || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return UserError(err)
	}
	if !o.noted {
		o.noted = true
		fmt.Fprintf(o.notes, "The watch is interrupted, and is tried again: %v\n", err)
	}
	return nil
}

// listChanges calls change for what changed while nothing was watched. It returns the resource
// version to continue from, and whether the profiles could be listed.
func (c *Cluster) listChanges(ctx context.Context, there map[string]*v1alpha1.SchedulingProfile, o *outage, change func(*v1alpha1.SchedulingProfile, bool) error) (version string, listed bool, err error) {
	list, err := c.listProfiles(ctx)
	switch {
	case ctx.Err() != nil:
		return "", false, nil
	case err != nil:
		return "", false, o.check(err)
	}
	return list.ResourceVersion, true, catchUp(there, list.Items, change)
}

// catchUp calls change for the profiles that were deleted since they were there, and then for those
// of a list.
func catchUp(there map[string]*v1alpha1.SchedulingProfile, list []v1alpha1.SchedulingProfile, change func(*v1alpha1.SchedulingProfile, bool) error) error {
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if FindProfile(list, name) == nil {
			if err := change(there[name], true); err != nil {
				return err
			}
		}
	}
	for i := range list {
		if err := change(&list[i], false); err != nil {
			return err
		}
	}
	return nil
}

// watchFrom watches from a resource version on until the API server ends the watch. It
// returns the resource version to continue from; empty if the given one is too old.
func (c *Cluster) watchFrom(ctx context.Context, version string, o *outage, change func(*v1alpha1.SchedulingProfile, bool) error) (string, error) {
	w, err := c.Client.Watch(ctx, &v1alpha1.SchedulingProfileList{}, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true},
	})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return "", nil
	}
	if ctx.Err() != nil {
		return version, nil
	}
	if err != nil {
		return version, o.check(err)
	}
	o.end()
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, more := <-w.ResultChan():
			if !more {
				return version, nil
			}
			p, isProfile := e.Object.(*v1alpha1.SchedulingProfile)
			if !isProfile { // an error: the resource version is too old
				return "", nil
			}
			version = p.ResourceVersion
			if e.Type == watch.Bookmark {
				continue
			}
			if err := change(p, e.Type == watch.Deleted); err != nil {
				return "", err
			}
		}
	}
}

func (c *Cluster) listProfiles(ctx context.Context) (*v1alpha1.SchedulingProfileList, error) {
	list := &v1alpha1.SchedulingProfileList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.SchedulingProfile) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// checkNames returns an error that lists the names which no profile has.
func checkNames(profiles []v1alpha1.SchedulingProfile, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(profiles, func(p v1alpha1.SchedulingProfile) bool { return p.Name == name }) {
			return fmt.Errorf("%s", ProfileNotFound(name, ProfileNames(profiles)))
		}
	}
	return nil
}

func selectByName(profiles []v1alpha1.SchedulingProfile, names []string) []v1alpha1.SchedulingProfile {
	return slices.DeleteFunc(slices.Clone(profiles), func(p v1alpha1.SchedulingProfile) bool {
		return len(names) > 0 && !slices.Contains(names, p.Name)
	})
}

// FindProfile returns the profile with a name, nil for none.
func FindProfile(profiles []v1alpha1.SchedulingProfile, name string) *v1alpha1.SchedulingProfile {
	for i := range profiles {
		if profiles[i].Name == name {
			return &profiles[i]
		}
	}
	return nil
}

// ProfileNames returns the names of profiles.
func ProfileNames(profiles []v1alpha1.SchedulingProfile) []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// ProfileNotFound returns the message for a name without a profile. It suggests a similar
// name and lists the existing ones.
func ProfileNotFound(name string, there []string) string {
	text := fmt.Sprintf("no SchedulingProfile is named %q", name)
	if near := compile.Suggest(name, there); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	} else {
		text += ";"
	}
	switch {
	case len(there) == 0:
		return text + " no profiles exist"
	case len(there) > maxNames:
		return fmt.Sprintf("%s Existing profiles: %s and %d more", text, strings.Join(there[:maxNames], ", "), len(there)-maxNames)
	case strings.HasSuffix(text, ";"):
		return text + " existing profiles: " + strings.Join(there, ", ")
	}
	return text + " Existing profiles: " + strings.Join(there, ", ")
}
