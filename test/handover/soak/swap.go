package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/operator"
)

// spec is the i-th of the profile's forms: nodes are filled evenly, or one
// after the other.
func spec(i int) v1alpha1.SchedulingProfileSpec {
	strategy := []string{"LeastAllocated", "MostAllocated"}[i%2]
	args := fmt.Sprintf(`{"scoringStrategy":{"type":%q,"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}}`, strategy)
	return v1alpha1.SchedulingProfileSpec{
		PluginConfig: []v1alpha1.PluginArguments{{
			Name: "NodeResourcesFit", Args: &runtime.RawExtension{Raw: []byte(args)},
		}},
		Decisions: v1alpha1.DecisionPolicy{PublishSeconds: new(int32(1))},
	}
}

// apply makes the profile the i-th of its forms and waits until it runs. It
// notes the generation: decisions must come from one that it noted.
func (s *soak) apply(ctx context.Context, i int) error {
	if err := operator.ApplyProfile(ctx, s.cp, profile, spec(i)); err != nil {
		return err
	}
	p, err := operator.UntilProgrammed(ctx, s.cp, profile)
	if err != nil {
		return err
	}
	s.generations[p.Generation] = p.Status.Programmed.Hash
	return nil
}

// swap changes the profile each time another part of the pods is bound, so
// that all changes meet pods on their way. Where a stream comes they are for that.
func (s *soak) swap(ctx context.Context) error {
	if s.options.stream > 0 {
		return nil
	}
	for i := 1; i <= s.options.swaps; i++ {
		if err := s.bound.Until(ctx, s.options.pods*i/(s.options.swaps+1), s.cp.Running); err != nil {
			return err
		}
		bound, began := len(s.bound.Binds()), time.Now()
		if err := s.apply(ctx, i); err != nil {
			return err
		}
		s.say("swap %d of %d with %d pods bound: it runs %.2f s later, with %d bound", i, s.options.swaps,
			bound, time.Since(began).Seconds(), len(s.bound.Binds()))
	}
	return nil
}
