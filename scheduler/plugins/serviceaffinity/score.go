package serviceaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
)

// servicesOf returns the Services that select a pod.
func (p *Plugin) servicesOf(pod *v1.Pod) ([]*v1.Service, error) {
	all, err := p.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var selecting []*v1.Service
	for _, service := range all {
		// Without a selector it selects nothing.
		if service.Spec.Selector != nil && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			selecting = append(selecting, service)
		}
	}
	return selecting, nil
}

// Score counts the pods on the node that the first Service of the pod selects, without
// terminating pods.
func (p *Plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	services, err := p.servicesOf(pod)
	if err != nil || len(services) == 0 {
		return 0, nil
	}
	selector := labels.SelectorFromSet(services[0].Spec.Selector)
	if selector.Empty() {
		return 0, nil
	}
	var count int64
	for _, info := range node.GetPods() {
		other := info.GetPod()
		if other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels)) {
			count++
		}
	}
	return count, nil
}

// ScoreExtensions returns the plugin, which turns the counts into scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives each label an equal part of 100. For each label, a node gets the
// fraction of the Service's pods that are on nodes with another value. A node without
// the label gets nothing for it.
//
// Source: pkg/scheduler/framework/plugins/serviceaffinity of Kubernetes 1.22.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	points := make([]float64, len(scores))
	for _, label := range p.args.AntiAffinityLabelsPreference {
		if err := p.addLabelScore(label, scores, points); err != nil {
			return fwk.AsStatus(err)
		}
	}
	for i := range scores {
		scores[i].Score = int64(points[i])
	}
	return nil
}

// addLabelScore adds the score of one label to points.
func (p *Plugin) addLabelScore(label string, counts fwk.NodeScoreList, points []float64) error {
	var total int64
	values, pods := make([]*string, len(counts)), map[string]int64{}
	for i, c := range counts {
		total += c.Score
		node, err := p.nodes.NodeInfos().Get(c.Name)
		if err != nil {
			return fmt.Errorf("looking for node %s: %w", c.Name, err)
		}
		if value, ok := node.Node().Labels[label]; ok {
			values[i] = &value
			pods[value] += c.Score
		}
	}
	for i, value := range values {
		if value == nil {
			continue
		}
		score := float64(fwk.MaxScore)
		if total > 0 {
			score *= float64(total-pods[*value]) / float64(total)
		}
		points[i] += score / float64(len(p.args.AntiAffinityLabelsPreference))
	}
	return nil
}
