package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// largeReplicas is the number of pods of the three large Deployments.
	largeReplicas = 200
	// podCPU is the CPU request of each of these pods: a node with 4 CPUs has room for 16.
	podCPU = "250m"
	// smallReplicas is the number of pods of the small Deployments.
	smallReplicas = 20
)

// deploySpread shows LeastAllocated on empty nodes: each pod is bound to a node with the
// fewest pods, so that in the end all nodes have the same number.
func (s *demo) deploySpread(ctx context.Context) error {
	p, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.deploy(ctx, "web", largeReplicas, podCPU); err != nil {
		return err
	}
	pods, err := s.waitForPods(ctx, "web", largeReplicas, p.Metadata.Generation)
	if err != nil {
		return err
	}
	for node, n := range perNode(pods) {
		if n != largeReplicas/nodes {
			return fmt.Errorf("%s has %d pods, want %d on each node", node, n, largeReplicas/nodes)
		}
	}
	return nil
}

// deployPacked shows MostAllocated after the change: 4 of the 16 pods that fit on a node
// exist, so 200 more fill 16 nodes and half of another one.
func (s *demo) deployPacked(ctx context.Context) error {
	p, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.deploy(ctx, "batch", largeReplicas, podCPU); err != nil {
		return err
	}
	pods, err := s.waitForPods(ctx, "batch", largeReplicas, p.Metadata.Generation)
	if err != nil {
		return err
	}
	const room = 16 - largeReplicas/nodes
	if used, want := len(perNode(pods)), (largeReplicas+room-1)/room; used != want {
		return fmt.Errorf("the pods are on %d nodes, want %d", used, want)
	}
	for _, pod := range pods[:3] {
		s.printf("%s", pod.describe())
	}
	s.printf("The Binding wrote this into the annotation of the pod:")
	return s.kubectl(ctx, "get", "pod", pods[0].pod, `--output=jsonpath={.metadata.annotations.berth\.dev/decision}`)
}

// switchInFlight changes the profile while its pods arrive. Each pod must be bound by the
// old or the new generation. The first pods are bound before the change and the last ones
// arrive after it, so both generations bind some.
func (s *demo) switchInFlight(ctx context.Context) error {
	before, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.deploy(ctx, "rush", smallReplicas, podCPU); err != nil {
		return err
	}
	s.printf("It is scaled to %d while the profile changes.", largeReplicas)
	scaled := make(chan error, 1)
	go func() { scaled <- s.grow(ctx, "rush", smallReplicas, largeReplicas-smallReplicas) }()
	if err := s.poll(ctx, func() (string, error) { return s.missingBoundPod(ctx, "rush") }); err != nil {
		return err
	}
	if err := s.patchProfile(ctx, patchSpread); err != nil {
		return err
	}
	after, err := s.waitForProfile(ctx)
	if err != nil {
		return err
	}
	if err := <-scaled; err != nil {
		return err
	}
	if err := s.scale(ctx, "rush", largeReplicas); err != nil {
		return err
	}
	pods, err := s.waitForPods(ctx, "rush", largeReplicas, before.Metadata.Generation, after.Metadata.Generation)
	if err != nil {
		return err
	}
	by := map[int64]int{} // generation → pods it bound
	for _, pod := range pods {
		by[pod.Generation]++
	}
	s.printf("%d bound by generation %d, %d by generation %d; none twice, none lost",
		by[before.Metadata.Generation], before.Metadata.Generation, by[after.Metadata.Generation], after.Metadata.Generation)
	if len(by) != 2 {
		return fmt.Errorf("one generation bound all pods: %v", by)
	}
	return nil
}

// refuseBrokenChange misspells a plugin. The change is rejected with the name of the field,
// the running generation keeps running, and a correction makes the profile Ready again.
func (s *demo) refuseBrokenChange(ctx context.Context) error {
	before, err := s.profile(ctx)
	if err != nil {
		return err
	}
	if err := s.patchProfile(ctx, patchMisspelled); err != nil {
		return err
	}
	var condition *metav1.Condition
	err = s.poll(ctx, func() (string, error) {
		p, err := s.profile(ctx)
		condition = meta.FindStatusCondition(p.Status.Conditions, "Accepted")
		if condition == nil || condition.ObservedGeneration != p.Metadata.Generation || condition.Status != metav1.ConditionFalse {
			return "Accepted=False for the invalid generation", err
		}
		if missingCondition(p.Status.Conditions, p.Metadata.Generation, "Ready") == "" {
			return "Ready=False", err
		}
		if p.Status.Programmed.Generation != before.Metadata.Generation {
			return fmt.Sprintf("generation %d still running", before.Metadata.Generation), err
		}
		return "", err
	})
	if err != nil {
		return err
	}
	if condition.Reason != "UnknownPlugin" || !strings.Contains(condition.Message, rejectedField) {
		return fmt.Errorf("rejected with %s, %q; want UnknownPlugin and the field %s", condition.Reason, condition.Message, rejectedField)
	}
	s.printf("%s: %s", condition.Reason, condition.Message)
	if err := s.showTables(ctx, 0); err != nil {
		return err
	}
	if err := s.deploy(ctx, "steady", smallReplicas, podCPU); err != nil {
		return err
	}
	if _, err := s.waitForPods(ctx, "steady", smallReplicas, before.Metadata.Generation); err != nil {
		return err
	}
	if err := s.patchProfile(ctx, patchCorrected); err != nil {
		return err
	}
	corrected, err := s.waitForProfile(ctx)
	if err != nil {
		return err
	}
	s.printf("generation %d is running", corrected.Metadata.Generation)
	return nil
}

// explainRefusal creates a pod that requests more than any node has.
func (s *demo) explainRefusal(ctx context.Context) error {
	if err := s.deploy(ctx, "giant", 1, "64"); err != nil {
		return err
	}
	var why string
	want := fmt.Sprintf("0/%d nodes are available: %d Insufficient cpu", nodes, nodes)
	err := s.poll(ctx, func() (string, error) {
		pods, err := s.pods(ctx, "giant")
		for _, pod := range pods {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
					why = c.Message
					return "", err
				}
			}
		}
		return "the condition PodScheduled=False, Unschedulable", err
	})
	if err != nil {
		return err
	}
	if !strings.HasPrefix(why, want) {
		return fmt.Errorf("the condition has the message %q, want %q", why, want)
	}
	s.printf("%s", why)
	return nil
}

// showTotals checks the status at the end: every bound pod is counted, and the newest
// decision is about the pending pod.
func (s *demo) showTotals(ctx context.Context) error {
	if err := s.showTables(ctx, 1, "--output=wide"); err != nil {
		return err
	}
	return s.poll(ctx, func() (string, error) {
		p, err := s.profile(ctx)
		if recent := p.Status.RecentDecisions; len(recent) > 0 && strings.HasPrefix(recent[0].Pod, "giant-") && recent[0].Result == "Unschedulable" {
			s.printf("newest in status.recentDecisions: %s: %s: %s", recent[0].Pod, recent[0].Result, recent[0].Message)
			return "", err
		}
		return "the decision about giant as the newest in status.recentDecisions", err
	})
}
