package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/load"
)

// check asks the API server, by quorum reads, whether all is as it must be.
func (r *restarts) check(ctx context.Context) error {
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	epochs, err := judge(pods.Items, r.total, r.bound.Binds())
	if err == nil {
		r.say("all %d pods are there and bound, each once, by %d leaders", len(pods.Items), epochs)
	}
	return err
}

// judge: all pods are there, where they were first seen bound, and say so; no
// node has more than it takes. It returns how many leaders bound them.
func judge(pods []corev1.Pod, total int, first map[string]load.Bind) (epochs int, err error) {
	var errs []error
	if len(pods) != total {
		errs = append(errs, fmt.Errorf("there are %d pods, not %d", len(pods), total))
	}
	by, on := map[int64]bool{}, map[string]int{}
	for i := range pods {
		pod := &pods[i]
		var d struct {
			Epoch int64  `json:"epoch"`
			Node  string `json:"node"`
		}
		bind := first[pod.Namespace+"/"+pod.Name]
		switch err := json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &d); {
		case pod.Spec.NodeName == "":
			errs = append(errs, fmt.Errorf("pod %s is not bound: %+v", pod.Name, pod.Status.Conditions))
		case bind.UID != pod.UID || bind.Node != pod.Spec.NodeName:
			errs = append(errs, fmt.Errorf("pod %s is on %s, and was seen being bound to %q", pod.Name, pod.Spec.NodeName, bind.Node))
		case err != nil || d.Node != pod.Spec.NodeName:
			errs = append(errs, fmt.Errorf("pod %s is on %s, and its decision does not say so: %q", pod.Name, pod.Spec.NodeName, pod.Annotations["berth.dev/decision"]))
		}
		by[d.Epoch] = true
		if on[pod.Spec.NodeName]++; on[pod.Spec.NodeName] == podsANode+1 {
			errs = append(errs, fmt.Errorf("node %s has more than %d pods", pod.Spec.NodeName, podsANode))
		}
	}
	const most = 10
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return len(by), errors.Join(errs...)
}

// gap is the longest time within a window in which nothing happened, of what
// happened at these times, in their order.
func gap(at []time.Time, window [2]time.Time) (longest time.Duration) {
	last := window[0]
	for _, t := range at {
		if t.Before(window[0]) {
			continue
		}
		if t.After(window[1]) {
			break
		}
		longest, last = max(longest, t.Sub(last)), t
	}
	return max(longest, window[1].Sub(last))
}

// spread prints seconds: the median, with the least and the most.
func spread(seconds []float64) string {
	sorted := slices.Sorted(slices.Values(seconds))
	n := len(sorted)
	return fmt.Sprintf("%.2f s (%.2f to %.2f)", (sorted[(n-1)/2]+sorted[n/2])/2, sorted[0], sorted[n-1])
}
