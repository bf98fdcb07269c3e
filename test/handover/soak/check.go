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

// errorLimit is how many errors of one kind are printed.
const errorLimit = 10

// errorList is a list of errors.
type errorList []error

func (f *errorList) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// err joins the errors; nil if there are none.
func (f errorList) err() error {
	if len(f) <= errorLimit {
		return errors.Join(f...)
	}
	return errors.Join(append(f[:errorLimit:errorLimit], fmt.Errorf("and %d more", len(f)-errorLimit))...)
}

// check reads pods and nodes from the API server, with quorum reads, and checks them.
func (s *testRun) check(ctx context.Context) error {
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
		s.checkTotals(ctx),
		s.cp.Running(),
	)
}

// checkPods checks that all pods exist and have the node of their observed bind, decided by
// a generation that ran.
func (s *testRun) checkPods(pods []corev1.Pod, first map[string]load.Bind) error {
	var found errorList
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
		generation, err := s.decidingGeneration(pod)
		if err != nil {
			found = append(found, err)
			continue
		}
		by[generation]++
	}
	if len(found) == 0 {
		s.log("all %d pods are there and bound, each once; by generation: %s", len(pods), formatCounts(by))
	}
	return found.err()
}

// decidingGeneration returns the generation in the pod's annotation. It must have run with
// that hash, and the annotation must have the pod's node.
func (s *testRun) decidingGeneration(pod *corev1.Pod) (int64, error) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Profile != profile || d.Node != pod.Spec.NodeName || d.Hash != s.generations[d.Generation] {
		return 0, fmt.Errorf("pod %s is on %s; its decision does not say so, or names what did not run: %s (ran: %v)",
			pod.Name, pod.Spec.NodeName, text, s.generations)
	}
	return d.Generation, nil
}

// checkNodes checks that the pods of a node request at most what it offers.
func (s *testRun) checkNodes(nodes []corev1.Node, pods []corev1.Pod) error {
	var found errorList
	wanted := map[string]corev1.ResourceList{} // node → requests of its pods
	for i := range pods {
		node := pods[i].Spec.NodeName
		if wanted[node] == nil {
			wanted[node] = corev1.ResourceList{}
		}
		for name, quantity := range resource.PodRequests(&pods[i], resource.PodResourcesOptions{}) {
			add(wanted[node], name, quantity)
		}
		add(wanted[node], corev1.ResourcePods, onePod)
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
		found.add("pods are on node %q, which does not exist", name)
	}
	if len(found) == 0 {
		s.log("no node is over what it offers; the fullest, %s, holds %dm of %dm CPU", fullest, most, milliCPU)
	}
	return found.err()
}

// checkTotals checks that the profile counts each pod once.
func (s *testRun) checkTotals(ctx context.Context) error {
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
	s.log("the profile counts %d bound, %d refusals, %d errors", p.Status.Totals.Bound, p.Status.Totals.Refusals, p.Status.Totals.Errors)
	return nil
}

// listLimit is up to how many generations are listed one by one.
const listLimit = 12

// formatCounts formats how many pods each generation bound.
func formatCounts(by map[int64]int) string {
	if len(by) > listLimit {
		pods := slices.Sorted(maps.Values(by))
		return fmt.Sprintf("%d of them, from %d pods to %d each", len(by), pods[0], pods[len(pods)-1])
	}
	var parts []string
	for _, generation := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%d by %d", by[generation], generation))
	}
	return strings.Join(parts, ", ")
}

// onePod is what a pod uses of a node's pods.
var onePod = apiresource.MustParse("1")

func add(list corev1.ResourceList, name corev1.ResourceName, quantity apiresource.Quantity) {
	sum := list[name]
	sum.Add(quantity)
	list[name] = sum
}
