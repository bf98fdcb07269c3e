package main

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// What a slow profile costs the others: the same Berth, with a profile of another
// name beside it whose plugin keeps the loop busy, and without its pods.
const (
	alone   = "house"
	crowded = "house+slow"
)

// slowProfile has the plugin Slow, and slowPods is how many pods wait for it when
// the measured ones do: more than it may try meanwhile.
const (
	slowProfile = "slow"
	slowPods    = 1000
)

func installSlow(ctx context.Context, s *stage) error {
	if err := installBerth(ctx, s); err != nil {
		return err
	}
	spec := v1alpha1.SchedulingProfileSpec{Plugins: &v1alpha1.Plugins{
		PreFilter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Slow"}}},
	}}
	return operator.ApplyProfile(ctx, s.cp, slowProfile, spec)
}

func startSlow(ctx context.Context, s *stage) (*controlplane.Process, error) {
	manager, err := operator.Start(ctx, s.cp, s.binaries.slow)
	if err != nil {
		return nil, err
	}
	return manager.Process, nil
}

// besideSlow creates the pods that wait for the slow profile.
func besideSlow(ctx context.Context, s *stage) error {
	return load.Each(ctx, slowPods, s.options.workers, func(ctx context.Context, i int) error {
		pod := plain("slow")(i).SchedulerName(slowProfile).Obj()
		pod.Namespace = "default" // events are counted by namespace
		return s.add(ctx, pod)
	})
}

func saysSlow(name string) string {
	text := "a Berth with the plugin Slow, with leader election"
	if name == crowded {
		text += fmt.Sprintf("; %d pods wait for a profile that has it, 20 ms of the loop each", slowPods)
	}
	return text
}
