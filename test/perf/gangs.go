package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins/gangscheduling"
	"github.com/berthdev/berth/test/support/fixture"
)

// gangOptions are those of a shape whose pods are in gangs: native PodGroups, with the feature
// gate GenericWorkload. The algorithm layer does not run it.
type gangOptions struct {
	// size is the number of pods of a gang; the last one may have fewer.
	size int
	// single is 0, or one of so many pods is in no gang. Then latencies are those of these.
	single int
}

// of returns the name of the i-th pod's gang; "" for none.
func (g *gangOptions) of(i int) string {
	if g.single > 0 {
		if i%g.single == 0 {
			return ""
		}
		i -= i/g.single + 1
	}
	return fmt.Sprint("gang-", i/g.size)
}

// inGangs is build for pods in gangs.
func inGangs(g *gangOptions, build func(int) *fixture.PodBuilder) func(int) *fixture.PodBuilder {
	return func(i int) *fixture.PodBuilder {
		return build(i).Mutate(func(pod *corev1.Pod) {
			if name := g.of(i); name != "" {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			}
		})
	}
}

// createPodGroups creates the PodGroups of all pods of the load. All pods of a gang have to fit.
func (t *runner) createPodGroups(ctx context.Context) error {
	sizes := map[string]int32{}
	for i := range t.pods {
		if name := t.shape.gangs.of(i); name != "" {
			sizes[name]++
		}
	}
	for name, size := range sizes {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: size}
		if _, err := t.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, group, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// apiServerArgs are the flags with which the API server has PodGroups.
func (g *gangOptions) apiServerArgs() []string {
	if g == nil {
		return nil
	}
	return []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}
}

// pluginsFor returns the plugins with which a shape is run, GangScheduling last as in
// kube-scheduler's default ones.
func (b *bench) pluginsFor(s shape) pluginSet {
	set := b.plugins
	if s.gangs != nil {
		set.names = slices.Concat(set.names, []string{gangscheduling.Name})
	}
	return set
}

// spec returns the spec of a profile that has the plugins of the set: an empty one, or one that
// schedules groups.
func (s pluginSet) spec() v1alpha1.SchedulingProfileSpec {
	if !s.has(gangscheduling.Name) {
		return v1alpha1.SchedulingProfileSpec{}
	}
	return v1alpha1.SchedulingProfileSpec{Plugins: &v1alpha1.Plugins{
		MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: gangscheduling.Name}}},
	}}
}
