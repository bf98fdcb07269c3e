package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// decidedPod is a bound pod and the decision in its annotation.
type decidedPod struct {
	pod        string
	Profile    string `json:"profile"`
	Generation int64  `json:"generation"`
	Hash       string `json:"hash"`
	Node       string `json:"node"`
	Evaluated  int    `json:"evaluated"`
	Feasible   int    `json:"feasible"`
	Top        []struct {
		Node    string           `json:"node"`
		Score   int64            `json:"score"`
		Plugins map[string]int64 `json:"plugins"`
	} `json:"top"`
}

func readDecision(pod corev1.Pod) (decidedPod, error) {
	const name = "berth.dev/decision"
	p := decidedPod{pod: pod.Name}
	text, ok := pod.Annotations[name]
	if !ok {
		return p, fmt.Errorf("pod %s has no annotation %s", pod.Name, name)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("pod %s: annotation %s: %w", pod.Name, name, err)
	}
	// A node is scored if there is another one.
	if p.Node != pod.Spec.NodeName || p.Profile != profileName || p.Hash == "" || len(p.Top) == 0 && p.Feasible != 1 {
		return p, fmt.Errorf("pod %s is on node %s; its decision does not match, or is incomplete: %s", pod.Name, pod.Spec.NodeName, text)
	}
	return p, nil
}

// describe says in a line which node was chosen and why.
func (p decidedPod) describe() string {
	var best []string
	for _, n := range p.Top {
		best = append(best, fmt.Sprintf("%s %d", n.Node, n.Score))
	}
	return fmt.Sprintf("%s → %s by generation %d: %d of %d nodes feasible; best: %s",
		p.pod, p.Node, p.Generation, p.Feasible, p.Evaluated, strings.Join(best, ", "))
}

// perNode returns the number of pods of each node.
func perNode(pods []decidedPod) map[string]int {
	counts := map[string]int{} // node → pods
	for _, p := range pods {
		counts[p.Node]++
	}
	return counts
}

// distribution says how many nodes have how many pods, the fullest first.
func distribution(pods []decidedPod) string {
	nodesWith := map[int]int{} // pods → nodes that hold so many
	for _, n := range perNode(pods) {
		nodesWith[n]++
	}
	var parts []string
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(nodesWith))) {
		parts = append(parts, fmt.Sprintf("%d on %d", n, nodesWith[n]))
	}
	return strings.Join(parts, ", ")
}
