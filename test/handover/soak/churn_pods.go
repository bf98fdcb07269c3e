package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/test/handover/history"
)

// unfitLabel marks the pods that fit nowhere.
const unfitLabel = "unfit"

// churnPod returns the i-th pod. Of a hundred pods one requests more than any node has, ten must be
// in one zone, ten spread over zones, ten prefer to be far from pods like them, and the others
// request resources only.
func (o options) churnPod(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i%20)
	template := o.template(app)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = fmt.Sprintf("pod-%d", i)
	alike := &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	switch {
	case i%100 == 99:
		pod.Labels[unfitLabel] = "true"
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100")
	case i%10 == 1:
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i/10%3)}
	case i%10 == 4:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: alike,
		}}
	case i%10 == 7:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: alike},
			}},
		}}
	}
	return pod
}

// observe checks a change, and notes what became of the pod. The recorder calls it.
func (c *churn) observe(change history.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checker.Add(change)
	pod := change.Pod
	if pod == nil || pod.Spec.SchedulerName != profile {
		return
	}
	fits := pod.Labels[unfitLabel] == ""
	_, knownFit := c.pending[pod.Name]
	switch {
	case change.Deleted:
		c.forget(pod)
	case pod.Spec.NodeName != "":
		delete(c.pending, pod.Name)
	case fits && !knownFit:
		c.pending[pod.Name] = time.Now()
		c.result.Created++
	case !fits && !c.unfit[pod.Name] && !binding.HasPodScheduledFalse(pod):
		c.unfit[pod.Name] = true
		c.result.Created++
	case c.unfit[pod.Name] && binding.HasPodScheduledFalse(pod):
		delete(c.unfit, pod.Name)
		c.refused = append(c.refused, pod.Name)
		c.result.Refused++
	}
}

// forget forgets a deleted pod; if it was bound, its generation must have run.
func (c *churn) forget(pod *corev1.Pod) {
	c.result.Deleted++
	delete(c.pending, pod.Name)
	delete(c.unfit, pod.Name)
	delete(c.asked, pod.Name)
	if pod.Spec.NodeName == "" {
		return
	}
	if _, err := c.decidingGeneration(pod); err != nil {
		c.doubtful = append(c.doubtful, pod)
	}
}

// checkAll checks the pods that are there at the end, and those whose generation was not known when
// they were deleted. It returns the pods that fit nowhere.
func (c *churn) checkAll() (refused []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	result := c.checker.End()
	var found errorList
	for _, v := range slices.Concat(result.Violations, result.Unsettled) {
		found.add("%s", v)
	}
	for _, pod := range slices.Concat(c.checker.Bound(), c.doubtful) {
		if _, err := c.decidingGeneration(pod); err != nil {
			found = append(found, err)
		}
	}
	c.testRun.total = result.Binds
	if len(found) == 0 {
		c.log("%s", result)
	}
	return c.refused, found.err()
}

// unsettled returns an error that names the pods which are pending at the end.
func (c *churn) unsettled(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found errorList
	found.add("%d pods that fit are pending, %d that fit nowhere have no reason: %w", len(c.pending), len(c.unfit), cause)
	for name, since := range c.pending {
		found.add("pod %s fits and is pending for %s", name, time.Since(since).Round(time.Second))
	}
	return found.err()
}
