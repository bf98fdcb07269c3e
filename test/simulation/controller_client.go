package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// The clients of the controllers: the cache, reads from the API server, statuses by server-side
// apply, and ControllerRevisions.

var (
	profileResource  = schema.GroupResource{Group: "berth.dev", Resource: profilesKind}
	revisionResource = schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
	errOtherVersion  = errors.New("the resource version is another")
)

func isProfile(o object) bool {
	_, is := o.(*v1alpha1.SchedulingProfile)
	return is
}

// cachedProfiles reads what the informer of a process has.
type cachedProfiles struct{ informer *informer }

func (c cachedProfiles) Get(_ context.Context, key crclient.ObjectKey, into crclient.Object, _ ...crclient.GetOption) error {
	return copyProfile(c.informer.store[key.Name], key, into)
}

func (c cachedProfiles) List(_ context.Context, into crclient.ObjectList, _ ...crclient.ListOption) error {
	list, are := into.(*v1alpha1.SchedulingProfileList)
	if !are {
		return nil // there are no PluginConfigs
	}
	c.informer.sim.tasks.yield(c.informer.isListed)
	for _, name := range slices.Sorted(maps.Keys(c.informer.store)) {
		list.Items = append(list.Items, *c.informer.store[name].(*v1alpha1.SchedulingProfile).DeepCopy())
	}
	return nil
}

func copyProfile(from object, key crclient.ObjectKey, into crclient.Object) error {
	p, there := from.(*v1alpha1.SchedulingProfile)
	if !there {
		return apierrors.NewNotFound(profileResource, key.Name)
	}
	p.DeepCopyInto(into.(*v1alpha1.SchedulingProfile))
	return nil
}

// liveProfiles reads what the API server has.
type liveProfiles struct{ sim *simulation }

func (l liveProfiles) Get(ctx context.Context, key crclient.ObjectKey, into crclient.Object, _ ...crclient.GetOption) error {
	_, err := l.sim.call(ctx, "list", "get profile "+key.Name, func() (*v1.Pod, error) {
		if p := find[*v1alpha1.SchedulingProfile](l.sim.server, key.Name); p != nil {
			return nil, copyProfile(p, key, into)
		}
		return nil, copyProfile(nil, key, into)
	})
	return err
}

func (l liveProfiles) List(ctx context.Context, into crclient.ObjectList, _ ...crclient.ListOption) error {
	_, err := l.sim.call(ctx, "list", "list profiles", func() (*v1.Pod, error) {
		list := into.(*v1alpha1.SchedulingProfileList)
		list.Items = nil
		for _, p := range all[*v1alpha1.SchedulingProfile](l.sim.server) {
			list.Items = append(list.Items, *p.DeepCopy())
		}
		return nil, nil
	})
	return err
}

// statusClient applies statuses.
type statusClient struct {
	crclient.SubResourceWriter // nil: nothing but Apply may be called
	sim                        *simulation
}

func (s statusClient) Status() crclient.SubResourceWriter { return s }

// appliedStatus is what is applied to a status.
type appliedStatus struct {
	Metadata struct{ Name, ResourceVersion string }
	Status   map[string]json.RawMessage
}

func (s statusClient) Apply(ctx context.Context, ac runtime.ApplyConfiguration, opts ...crclient.SubResourceApplyOption) error {
	options := (&crclient.SubResourceApplyOptions{}).ApplyOpts(opts)
	text, err := json.Marshal(ac)
	if err != nil {
		return err
	}
	var applied appliedStatus
	if err := json.Unmarshal(text, &applied); err != nil {
		return err
	}
	what := applyOfStatus(applied.Metadata.Name) + fmt.Sprintf("(version %q) as %s: %s", applied.Metadata.ResourceVersion, options.FieldManager, text)
	epoch := s.sim.leaderEpoch()
	_, err = s.sim.call(ctx, writeStatus, what, func() (*v1.Pod, error) {
		return nil, s.sim.applyStatus(applied, options.FieldManager, epoch)
	})
	return err
}

// applyOfStatus begins the description of a request that applies a profile's status.
func applyOfStatus(profile string) string { return "apply the status of " + profile + " " }

// applyStatus merges a status as server-side apply does where each field has one manager: fields
// that the manager applied before and leaves out now are removed.
func (sim *simulation) applyStatus(applied appliedStatus, manager string, epoch int64) error {
	before := find[*v1alpha1.SchedulingProfile](sim.server, applied.Metadata.Name)
	switch {
	case before == nil:
		return apierrors.NewNotFound(profileResource, applied.Metadata.Name)
	case applied.Metadata.ResourceVersion != "" && applied.Metadata.ResourceVersion != before.ResourceVersion:
		if epoch < sim.controllers.writtenBy[before.UID] {
			sim.count("a late status of an earlier leader is refused")
		}
		return apierrors.NewConflict(profileResource, before.Name, errOtherVersion)
	}
	fields := map[string]json.RawMessage{}
	if text, err := json.Marshal(before.Status); err != nil || json.Unmarshal(text, &fields) != nil {
		return fmt.Errorf("the status of %s: %w", before.Name, err)
	}
	for _, field := range sim.controllers.owned[before.UID][manager] {
		delete(fields, field)
	}
	maps.Copy(fields, applied.Status)
	if sim.controllers.owned[before.UID] == nil {
		sim.controllers.owned[before.UID] = map[string][]string{}
	}
	sim.controllers.owned[before.UID][manager] = slices.Collect(maps.Keys(applied.Status))
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	after := before.DeepCopy()
	after.Status = v1alpha1.SchedulingProfileStatus{}
	if err := json.Unmarshal(text, &after.Status); err != nil {
		return err
	}
	sim.checkStatusWrite(before, after, epoch)
	if _, reports := applied.Status["conditions"]; reports {
		sim.releaseStatuses(before.Name, epoch)
	}
	if apiequality.Semantic.DeepEqual(before.Status, after.Status) {
		sim.count("a write of a status changes nothing") // and leaves the resource version
		return nil
	}
	sim.controllers.writtenBy[before.UID] = epoch
	sim.server.put(after)
	return nil
}

// revisions are ControllerRevisions by name.
type revisions map[string]*appsv1.ControllerRevision

// revisionClient is the client of ControllerRevisions. Its requests are not fenced: a follower
// records there why its process crashed.
type revisionClient struct {
	appsclient.ControllerRevisionInterface
	sim *simulation
}

// call sends a request that the fence does not see.
func (c revisionClient) call(ctx context.Context, verb, what string, commit func() error) error {
	r := c.sim.send(verb, what, func() (*v1.Pod, error) { return nil, commit() })
	c.sim.await(ctx, r)
	return r.err
}

func (c revisionClient) List(ctx context.Context, options metav1.ListOptions) (*appsv1.ControllerRevisionList, error) {
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	list := &appsv1.ControllerRevisionList{}
	err = c.call(ctx, "list", "list revisions with "+options.LabelSelector, func() error {
		list.Items = nil
		for _, name := range slices.Sorted(maps.Keys(c.sim.controllers.revisions)) {
			if r := c.sim.controllers.revisions[name]; selector.Matches(labels.Set(r.Labels)) {
				list.Items = append(list.Items, *r.DeepCopy())
			}
		}
		return nil
	})
	return list, err
}

func (c revisionClient) Create(ctx context.Context, r *appsv1.ControllerRevision, _ metav1.CreateOptions) (*appsv1.ControllerRevision, error) {
	return c.write(ctx, "create", r, func(before *appsv1.ControllerRevision, stored *appsv1.ControllerRevision) error {
		if before != nil {
			return apierrors.NewAlreadyExists(revisionResource, r.Name)
		}
		stored.UID = types.UID("r" + itoa(c.sim.server.version))
		return nil
	})
}

func (c revisionClient) Update(ctx context.Context, r *appsv1.ControllerRevision, _ metav1.UpdateOptions) (*appsv1.ControllerRevision, error) {
	return c.write(ctx, "update", r, func(before *appsv1.ControllerRevision, stored *appsv1.ControllerRevision) error {
		switch {
		case before == nil:
			return apierrors.NewNotFound(revisionResource, r.Name)
		case before.UID != r.UID || r.ResourceVersion != "" && r.ResourceVersion != before.ResourceVersion:
			return apierrors.NewConflict(revisionResource, r.Name, errOtherVersion)
		}
		stored.UID = before.UID
		return nil
	})
}

// write stores a revision if check accepts it.
func (c revisionClient) write(ctx context.Context, how string, r *appsv1.ControllerRevision, check func(before, stored *appsv1.ControllerRevision) error) (written *appsv1.ControllerRevision, err error) {
	sim, object := c.sim, r.DeepCopy()
	err = c.call(ctx, writeRevision, fmt.Sprintf("%s revision %s (version %q): %v", how, r.Name, r.ResourceVersion, r.Annotations), func() error {
		stored := object.DeepCopy()
		if err := check(sim.controllers.revisions[r.Name], stored); err != nil {
			return err
		}
		sim.server.version++
		stored.ResourceVersion = itoa(sim.server.version)
		sim.controllers.revisions[r.Name], written = stored, stored.DeepCopy()
		for _, p := range sim.profiles {
			p.hasRevisions = p.hasRevisions || p.name == stored.Labels[v1alpha1.LabelProfile]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

func (c revisionClient) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.call(ctx, writeRevision, "delete revision "+name, func() error {
		switch before := c.sim.controllers.revisions[name]; {
		case before == nil:
			return apierrors.NewNotFound(revisionResource, name)
		case options.Preconditions != nil && options.Preconditions.UID != nil && *options.Preconditions.UID != before.UID:
			return apierrors.NewConflict(revisionResource, name, errors.New("the UID is another"))
		}
		delete(c.sim.controllers.revisions, name)
		return nil
	})
}
