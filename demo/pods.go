package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsNamespace is where the demo's Deployments live.
const podsNamespace = "default"

// deploy creates a Deployment whose pods ask for our profile and want cpu and
// 1Gi each.
func (s *stage) deploy(ctx context.Context, name string, replicas int, cpu string) error {
	labels := map[string]string{"app": name}
	container := corev1.Container{Name: "app", Image: "none"}
	container.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{SchedulerName: profileName, Containers: []corev1.Container{container}},
			},
		},
	}
	_, err := s.cp.Client().AppsV1().Deployments(podsNamespace).Create(ctx, d, metav1.CreateOptions{})
	if err == nil {
		s.say("Deployment %s: %d pods of %s CPU, schedulerName: %s", name, replicas, cpu, profileName)
	}
	return err
}

func (s *stage) pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	// From the watch cache: it is asked for often.
	list, err := s.cp.Client().CoreV1().Pods(podsNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app=" + app, ResourceVersion: "0",
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// untilRunning waits until exactly n pods of app are there and all run. Each
// must carry a decision of our profile that names the node it is on, and one
// of generations.
func (s *stage) untilRunning(ctx context.Context, app string, n int, generations ...int64) ([]placed, error) {
	var pods []corev1.Pod
	err := s.until(ctx, func() (string, error) {
		var err error
		pods, err = s.pods(ctx, app)
		running := 0
		for _, pod := range pods {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if len(pods) == n && running == n {
			return "", err
		}
		return fmt.Sprintf("%d running pods of %s: there are %d, of which %d run", n, app, len(pods), running), err
	})
	if err != nil {
		return nil, err
	}
	var all []placed
	for _, pod := range pods {
		p, err := readDecision(pod)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(generations, p.Generation) {
			return nil, fmt.Errorf("pod %s was bound by generation %d, want one of %v", p.pod, p.Generation, generations)
		}
		all = append(all, p)
	}
	s.bound += len(all)
	s.say("%d of %d pods run; pods a node, on how many nodes: %s", len(all), n, distribution(all))
	return all, nil
}

// placed is a pod with the decision that its binding carried.
type placed struct {
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

func readDecision(pod corev1.Pod) (placed, error) {
	const name = "berth.dev/decision"
	p := placed{pod: pod.Name}
	text, ok := pod.Annotations[name]
	if !ok {
		return p, fmt.Errorf("pod %s carries no annotation %s", pod.Name, name)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("pod %s: annotation %s: %w", pod.Name, name, err)
	}
	if p.Node != pod.Spec.NodeName || p.Profile != profileName || p.Hash == "" || len(p.Top) == 0 {
		return p, fmt.Errorf("pod %s is on %s; its decision says otherwise, or too little: %s", pod.Name, pod.Spec.NodeName, text)
	}
	return p, nil
}

// why says in a line where a pod went and why.
func (p placed) why() string {
	var best []string
	for _, n := range p.Top {
		best = append(best, fmt.Sprintf("%s %d", n.Node, n.Score))
	}
	return fmt.Sprintf("%s → %s by generation %d: %d of %d nodes fit; best: %s",
		p.pod, p.Node, p.Generation, p.Feasible, p.Evaluated, strings.Join(best, ", "))
}

// perNode counts pods by node.
func perNode(pods []placed) map[string]int {
	counts := map[string]int{} // node → pods
	for _, p := range pods {
		counts[p.Node]++
	}
	return counts
}

// distribution says how many pods are on how many nodes, the fullest first.
func distribution(pods []placed) string {
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
