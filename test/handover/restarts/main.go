// Command restarts replaces the leading manager again and again, as a rolling update does,
// while pods are created all the time. It checks that each pod is bound once, and measures
// the longest time without a bind.
//
//	go run ./test/handover/restarts --restarts=20
//
// It prints its results and ends with "restarts: ok", or with an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/command"
	"github.com/berthdev/berth/test/support/load"
)

func main() {
	command.Main("restarts", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, o, out)
	})
}

// podsPerNode is the number of pods that a node takes.
const podsPerNode = 110

// options are the flags.
type options struct {
	nodes, restarts int
	rate            float64
	steady, limit   time.Duration
}

// parse reads the flags. The error has the invalid ones and what they must be.
func parse(args []string) (options, error) {
	var o options
	f := command.Flags("restarts")
	f.IntVar(&o.nodes, "nodes", 500, "nodes, for 110 pods each")
	f.IntVar(&o.restarts, "restarts", 20, "how often the manager that leads is replaced")
	f.Float64Var(&o.rate, "rate", 50, "pods that are created per second")
	f.DurationVar(&o.steady, "steady", 10*time.Second, "how long pods are created before the first restart, and after the last")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "the time limit")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	var errs []error
	for flag, value := range map[string]float64{
		"nodes": float64(o.nodes), "restarts": float64(o.restarts), "rate": o.rate, "steady": o.steady.Seconds(), "limit": o.limit.Seconds(),
	} {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("--%s: must be more than 0, is %s", flag, f.Lookup(flag).Value))
		}
	}
	return o, errors.Join(errs...)
}

// check reads the pods from the API server, with quorum reads, and checks them.
func (r *testRun) check(ctx context.Context) error {
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	epochs, err := checkPods(pods.Items, r.total, r.bound.Binds())
	if err == nil {
		r.log("all %d pods are there and bound, each once, by %d leaders", len(pods.Items), epochs)
	}
	return err
}

// checkPods checks that all pods exist, have the node of their observed bind in status and
// annotation, and that no node has too many. It returns how many leaders bound them.
func checkPods(pods []corev1.Pod, total int, first map[string]load.Bind) (epochs int, err error) {
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
		if on[pod.Spec.NodeName]++; on[pod.Spec.NodeName] == podsPerNode+1 {
			errs = append(errs, fmt.Errorf("node %s has more than %d pods", pod.Spec.NodeName, podsPerNode))
		}
	}
	const most = 10
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return len(by), errors.Join(errs...)
}

// longestGap returns the longest time without an event in a window; the times are sorted.
func longestGap(at []time.Time, window [2]time.Time) (longest time.Duration) {
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
