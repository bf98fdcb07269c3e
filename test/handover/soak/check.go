package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// faultLimit is how many faults of one kind are told.
const faultLimit = 10

// faults are what is wrong.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// err is nil when nothing is wrong.
func (f faults) err() error {
	if len(f) <= faultLimit {
		return errors.Join(f...)
	}
	return errors.Join(append(f[:faultLimit:faultLimit], fmt.Errorf("and %d more", len(f)-faultLimit))...)
}

// check asks the API server, by quorum reads, whether all is as it must be.
func (s *soak) check(ctx context.Context) error {
	pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return errors.Join(
		s.checkPods(pods.Items, s.bound.Binds()),
		s.checkNodes(nodes.Items, pods.Items),
		s.checkBooks(ctx),
		s.cp.Running(),
	)
}

// checkPods: all are there, bound where they were first seen bound, by a
// generation that ran.
func (s *soak) checkPods(pods []corev1.Pod, first map[string]load.Bind) error {
	var found faults
	if len(pods) != s.total {
		found.add("there are %d pods, not %d", len(pods), s.total)
	}
	by := map[int64]int{} // generation → pods
	for i := range pods {
		pod := &pods[i]
		bind, seen := first[pod.Namespace+"/"+pod.Name]
		switch {
		case pod.Spec.NodeName == "":
			found.add("pod %s is not bound: %+v", pod.Name, pod.Status.Conditions)
			continue
		case !seen || bind.UID != pod.UID:
			found.add("pod %s is on %s, but was not seen being bound", pod.Name, pod.Spec.NodeName)
		case bind.Node != pod.Spec.NodeName:
			found.add("pod %s was bound to %s and is on %s", pod.Name, bind.Node, pod.Spec.NodeName)
		}
		generation, err := s.decided(pod)
		if err != nil {
			found = append(found, err)
			continue
		}
		by[generation]++
	}
	if len(found) == 0 {
		s.say("all %d pods are there and bound, each once; by generation: %s", len(pods), counts(by))
	}
	return found.err()
}

// decided returns the generation that the pod's annotation names, which must
// have run, under that hash, and have chosen the node that the pod is on.
func (s *soak) decided(pod *corev1.Pod) (int64, error) {
	var d struct {
		Profile    string `json:"profile"`
		Generation int64  `json:"generation"`
		Hash       string `json:"hash"`
		Node       string `json:"node"`
	}
	text := pod.Annotations["berth.dev/decision"]
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return 0, fmt.Errorf("pod %s: annotation berth.dev/decision %q: %w", pod.Name, text, err)
	}
	if d.Profile != profile || d.Node != pod.Spec.NodeName || d.Hash != s.generations[d.Generation] {
		return 0, fmt.Errorf("pod %s is on %s; its decision does not say so, or names what did not run: %s (ran: %v)",
			pod.Name, pod.Spec.NodeName, text, s.generations)
	}
	return d.Generation, nil
}

// checkNodes: what the pods of a node request does not exceed what it offers.
func (s *soak) checkNodes(nodes []corev1.Node, pods []corev1.Pod) error {
	var found faults
	wanted := map[string]corev1.ResourceList{} // node → requests of its pods
	for i := range pods {
		node := pods[i].Spec.NodeName
		if wanted[node] == nil {
			wanted[node] = corev1.ResourceList{}
		}
		for name, quantity := range resource.PodRequests(&pods[i], resource.PodResourcesOptions{}) {
			add(wanted[node], name, quantity)
		}
		add(wanted[node], corev1.ResourcePods, one)
	}
	fullest, most := "none", int64(0)
	for i := range nodes {
		node := &nodes[i]
		for name, quantity := range wanted[node.Name] {
			offered := node.Status.Allocatable[name]
			if quantity.Cmp(offered) > 0 {
				found.add("node %s offers %s of %s, its pods request %s", node.Name, offered.String(), name, quantity.String())
			}
		}
		cpu := wanted[node.Name][corev1.ResourceCPU]
		if cpu.MilliValue() > most {
			fullest, most = node.Name, cpu.MilliValue()
		}
		delete(wanted, node.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		found.add("pods are on node %q, which is not there", name)
	}
	if len(found) == 0 {
		s.say("no node is over what it offers; the fullest, %s, holds %dm of %dm CPU", fullest, most, milliCPU)
	}
	return found.err()
}

// checkBooks: the profile counts each pod once.
func (s *soak) checkBooks(ctx context.Context) error {
	p, err := operator.UntilProfile(ctx, s.cp, profile, fmt.Sprintf("counts %d bound and none pending", s.total),
		func(p *v1alpha1.SchedulingProfile) bool {
			t, q := p.Status.Totals, p.Status.Queue
			return t != nil && q != nil && t.Bound >= int64(s.total) && q.Pending+q.InFlight == 0
		})
	if err != nil {
		return err
	}
	if p.Status.Totals.Bound != int64(s.total) {
		return fmt.Errorf("the profile counts %d pods bound, there are %d", p.Status.Totals.Bound, s.total)
	}
	s.say("the profile counts %d bound, %d refusals, %d errors", p.Status.Totals.Bound, p.Status.Totals.Refusals, p.Status.Totals.Errors)
	return nil
}

// mostListed is how many generations are listed one by one.
const mostListed = 12

// counts says how many pods each generation bound.
func counts(by map[int64]int) string {
	if len(by) > mostListed {
		pods := slices.Sorted(maps.Values(by))
		return fmt.Sprintf("%d of them, from %d pods to %d each", len(by), pods[0], pods[len(pods)-1])
	}
	var parts []string
	for _, generation := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%d by %d", by[generation], generation))
	}
	return strings.Join(parts, ", ")
}

// one is what a pod takes of a node's places for pods.
var one = apiresource.MustParse("1")

func add(list corev1.ResourceList, name corev1.ResourceName, quantity apiresource.Quantity) {
	sum := list[name]
	sum.Add(quantity)
	list[name] = sum
}
