package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedulinggroup "k8s.io/client-go/informers/scheduling"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	schedulingclient "k8s.io/client-go/kubernetes/typed/scheduling/v1beta1"
	toolscache "k8s.io/client-go/tools/cache"
)

// In a history of gangs the API server serves PodGroups of scheduling.k8s.io. Some gangs have
// one, the pods of the others say themselves what they want.

var podGroupResource = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}

func isPodGroup(o object) bool {
	_, ok := o.(*schedulingv1beta1.PodGroup)
	return ok
}

// putPodGroup stores a PodGroup and takes ownership of it.
func (s *server) putPodGroup(group *schedulingv1beta1.PodGroup) {
	s.stamp(group)
	c := change{new: group}
	if old, ok := s.podGroups[keyOf(group)]; ok {
		c.old = old
	}
	s.podGroups[keyOf(group)] = group
	s.append(c)
}

func (s *server) dropPodGroup(key string) {
	if old, ok := s.podGroups[key]; ok {
		delete(s.podGroups, key)
		s.version++
		s.append(change{old: old})
	}
}

func (s *server) sortedPodGroups() (groups []*schedulingv1beta1.PodGroup) {
	for _, key := range slices.Sorted(maps.Keys(s.podGroups)) {
		groups = append(groups, s.podGroups[key])
	}
	return groups
}

// podGroupOf returns the PodGroup of a gang, nil where it does not exist.
func (sim *simulation) podGroupOf(g *gang) *schedulingv1beta1.PodGroup {
	return sim.server.podGroups["shop/"+g.name]
}

// addPodGroup creates the PodGroup of a gang.
func (sim *simulation) addPodGroup(g *gang) {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: g.name, UID: types.UID("g" + itoa(sim.server.version))}}
	group.Spec.Priority = &g.priority
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(g.minCount)}
	sim.gangs.byPodGroup[group.UID] = g
	sim.logf("outside: PodGroup %s", describe(group))
	sim.server.putPodGroup(group)
}

// removePodGroup deletes the PodGroup of a gang. Until there is another one, its pods wait.
func (sim *simulation) removePodGroup(g *gang) {
	sim.logf("outside: PodGroup %s is deleted", g.name)
	sim.interruptAll(g)
	sim.server.dropPodGroup("shop/" + g.name)
}

func (f *factory) Scheduling() schedulinggroup.Interface {
	return schedulingGroup{f.SharedInformerFactory.Scheduling(), f}
}

type schedulingGroup struct {
	schedulinggroup.Interface
	f *factory
}

func (g schedulingGroup) V1beta1() schedulinginformers.Interface {
	return schedulingVersion{g.Interface.V1beta1(), g.f}
}

type schedulingVersion struct {
	schedulinginformers.Interface
	f *factory
}

func (v schedulingVersion) PodGroups() schedulinginformers.TypedPodGroupInformer {
	return podGroupInformer{informer: v.f.podGroups}
}

type podGroupInformer struct {
	schedulinginformers.TypedPodGroupInformer
	informer *informer
}

func (p podGroupInformer) Informer() toolscache.SharedIndexInformer { return p.informer }

func (c *client) SchedulingV1beta1() schedulingclient.SchedulingV1beta1Interface {
	return schedulingV1beta1{sim: c.sim}
}

type schedulingV1beta1 struct {
	schedulingclient.SchedulingV1beta1Interface
	sim *simulation
}

func (c schedulingV1beta1) PodGroups(namespace string) schedulingclient.PodGroupInterface {
	return podGroupClient{sim: c.sim, namespace: namespace}
}

type podGroupClient struct {
	schedulingclient.PodGroupInterface
	sim       *simulation
	namespace string
}

func (c podGroupClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*schedulingv1beta1.PodGroup, error) {
	var patch schedulingv1beta1.PodGroup
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	var written *schedulingv1beta1.PodGroup
	_, err := c.sim.call(ctx, "patch", "patch the status of PodGroup "+c.namespace+"/"+name, func() (_ *v1.Pod, err error) {
		written, err = c.sim.server.patchPodGroup(c.namespace+"/"+name, patch)
		return nil, err
	})
	return written, err
}

// patchPodGroup replaces the conditions that patch has, in the PodGroup with its UID.
func (s *server) patchPodGroup(key string, patch schedulingv1beta1.PodGroup) (*schedulingv1beta1.PodGroup, error) {
	group, ok := s.podGroups[key]
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(podGroupResource, key)
	case group.UID != patch.UID:
		return nil, apierrors.NewConflict(podGroupResource, key, errLost)
	}
	group = group.DeepCopy()
	for _, condition := range patch.Status.Conditions {
		apimeta.SetStatusCondition(&group.Status.Conditions, condition)
	}
	s.putPodGroup(group)
	return group, nil
}
