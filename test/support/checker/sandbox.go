package checker

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// readByPlugins are the kinds besides nodes and pods that plugins read.
var readByPlugins = []string{
	"Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget",
	"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment",
	"DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaim",
}

// checkNoneCouldRun checks, with the plugins that run in a sandbox, that none of the pods that
// wait as unschedulable fits on a node.
func (r *results) checkNoneCouldRun(t *timeline, p *v1alpha1.SchedulingProfile, pending []*corev1.Pod) {
	var refused []*corev1.Pod
	for _, pod := range pending {
		c := scheduledCondition(pod)
		if c != nil && c.Reason == corev1.PodReasonUnschedulable && !isGrouped(pod) {
			refused = append(refused, pod)
		}
	}
	if len(refused) == 0 {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	scheduler, err := newSandbox(ctx, t, p)
	if err != nil {
		r.Undecided[I3] = fmt.Sprintf("profile %s: %v", p.Name, err)
		return
	}
	for _, pod := range refused {
		r.checked(I3)
		outcome := scheduler.Attempt(ctx, pod)
		if outcome.Placement != nil {
			r.fail(I3, 0, keyOf(pod).String(), "it waits as unschedulable, and fits on %s (%s)", outcome.Placement.Node, scheduledCondition(pod).Message)
		}
	}
}

// newSandbox returns a scheduler with the final state and the plugins that run of a profile.
func newSandbox(ctx context.Context, t *timeline, p *v1alpha1.SchedulingProfile) (*sandbox.Scheduler, error) {
	running := t.specOf(p.Name, p.Status.Programmed.Hash)
	if running == nil {
		if p.Status.Programmed.Generation != p.Generation {
			return nil, errors.New("the revision that runs is not stored")
		}
		running = p
	}
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, c := range existing[*v1alpha1.PluginConfig](t, "PluginConfig") {
		configs[c.Name] = c
	}
	registry := t.Options.Registry
	if registry == nil {
		registry = plugins.InTree()
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: running, Configs: configs, Registry: registry, Extenders: compile.AllExtenders})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	scheduler, err := sandbox.New(ctx, sandbox.Options{Blueprint: blueprint, Registry: registry})
	if err != nil {
		return nil, err
	}
	for _, kind := range readByPlugins {
		for _, k := range t.keysOf(kind) {
			if change := t.at(k, t.History.Last); change != nil {
				if err := scheduler.SetObject(change.Object); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, node := range existing[*corev1.Node](t, "Node") {
		scheduler.SetNode(nil, node)
	}
	for _, pod := range existing[*corev1.Pod](t, "Pod") {
		nominated := pod.Status.NominatedNodeName != "" && t.ours(pod)
		if usesResources(pod) || pod.Spec.NodeName == "" && nominated {
			scheduler.SetPod(nil, pod)
		}
	}
	return scheduler, nil
}
