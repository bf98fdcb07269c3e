package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// namesTold bounds the names that an error lists.
const maxNames = 10

// pause is how long an API server is left alone that ended a watch.
const rewatchDelay = time.Second

// Profiles returns the SchedulingProfiles of the given names, or all, by name.
// The error names those that are not there, and what was perhaps meant.
func (c *Cluster) Profiles(ctx context.Context, names ...string) ([]v1alpha1.SchedulingProfile, error) {
	list, err := c.listProfiles(ctx)
	if err != nil {
		return nil, err
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

// Changes hands over the profiles of the given names, or all, and then each that
// is changed, until ctx ends or begin or change fails. A profile may be handed
// over unchanged.
func (c *Cluster) WatchProfiles(ctx context.Context, names []string, begin func([]v1alpha1.SchedulingProfile) error, change func(p *v1alpha1.SchedulingProfile, gone bool) error) error {
	list, err := c.listProfiles(ctx)
	if err != nil {
		return err
	}
	if err := checkNames(list.Items, names); err != nil {
		return err
	}
	if err := begin(selectByName(list.Items, names)); err != nil {
		return err
	}
	some := func(p *v1alpha1.SchedulingProfile, gone bool) error {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			return nil
		}
		return change(p, gone)
	}
	for version := list.ResourceVersion; ctx.Err() == nil; {
		if version, err = c.watchFrom(ctx, version, some); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rewatchDelay):
		}
		if version != "" {
			continue
		}
		// So much happened meanwhile that the API server forgot where we were.
		if list, err = c.listProfiles(ctx); err != nil {
			return err
		}
		for i := range list.Items {
			if err := some(&list.Items[i], false); err != nil {
				return err
			}
		}
		version = list.ResourceVersion
	}
	return nil
}

// follow watches from a version on until the API server ends that. It returns
// where to go on; empty when the version is too old.
func (c *Cluster) watchFrom(ctx context.Context, version string, change func(*v1alpha1.SchedulingProfile, bool) error) (string, error) {
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
		return "", UserError(err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, more := <-w.ResultChan():
			if !more {
				return version, nil
			}
			p, ours := e.Object.(*v1alpha1.SchedulingProfile)
			if !ours { // an error: its version is too old, or it will be told again
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
		return nil, UserError(err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.SchedulingProfile) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// known returns an error that tells the names which no profile has.
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

// Names are those of profiles.
func ProfileNames(profiles []v1alpha1.SchedulingProfile) []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// NoProfile says that there is no profile of a name, which was perhaps meant,
// and which there are.
func ProfileNotFound(name string, there []string) string {
	text := fmt.Sprintf("there is no SchedulingProfile %q", name)
	if near := compile.Suggest(name, there); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	} else {
		text += ";"
	}
	switch {
	case len(there) == 0:
		return text + " there is none at all"
	case len(there) > maxNames:
		return fmt.Sprintf("%s There are %s and %d more", text, strings.Join(there[:maxNames], ", "), len(there)-maxNames)
	case strings.HasSuffix(text, ";"):
		return text + " there are " + strings.Join(there, ", ")
	}
	return text + " There are " + strings.Join(there, ", ")
}
