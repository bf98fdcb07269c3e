// Package apitest has helpers of Ginkgo suites for objects on a real API server, which are
// deleted when their spec ends.
package apitest

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

// API is a client of an API server whose methods fail the spec that calls them.
type API struct{ client.Client }

// Pod creates a pod without grace period until the spec ends.
func (a API) Pod(ctx context.Context, b *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	pod := b.Valid()
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
	return Created(ctx, a, pod)
}

// Pods creates pods as Pod does.
func (a API) Pods(ctx context.Context, builders ...*fixture.PodBuilder) (pods []*v1.Pod) {
	GinkgoHelper()
	for _, b := range builders {
		pods = append(pods, a.Pod(ctx, b))
	}
	return pods
}

// NodeName reads a pod and returns its node, "" while it has none.
func (a API) NodeName(ctx context.Context, pod *v1.Pod) func(Gomega) string {
	return func(g Gomega) string {
		g.Expect(a.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return pod.Spec.NodeName
	}
}

// NominatedNode reads a pod and returns its nominated node.
func (a API) NominatedNode(ctx context.Context, pod *v1.Pod) func(Gomega) string {
	return func(g Gomega) string {
		g.Expect(a.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return pod.Status.NominatedNodeName
	}
}

// ExpectBound waits until each pod has a node.
func (a API) ExpectBound(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(a.NodeName(ctx, pod)).ShouldNot(BeEmpty(), func() string { return pod.Name + " has PodScheduled " + PodScheduled(pod) })
	}
}

// ExpectRefused waits until the condition PodScheduled of each pod is False with a message
// that contains this one.
func (a API) ExpectRefused(ctx context.Context, message string, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(a.PodScheduled(ctx, pod)).Should(And(HavePrefix("False "), ContainSubstring(message)), pod.Name)
	}
}

// ExpectPriorityClass waits until pods of a namespace can have a priority class: the API server learns
// of classes through a watch.
func (a API) ExpectPriorityClass(ctx context.Context, namespace, class string) {
	GinkgoHelper()
	ranked := fixture.Pod(namespace + "/ranked").Mutate(func(p *v1.Pod) { p.Spec.PriorityClassName = class })
	Eventually(func() error { return a.Create(ctx, ranked.Valid(), client.DryRunAll) }).Should(Succeed())
}

// PodScheduled reads a pod and returns its condition as the function PodScheduled does.
func (a API) PodScheduled(ctx context.Context, pod *v1.Pod) func(Gomega) string {
	return func(g Gomega) string {
		g.Expect(a.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return PodScheduled(pod)
	}
}

// PodScheduled returns a pod's condition PodScheduled as it was read last: "status reason:
// message", the status alone if there is no more, or "" without the condition.
func PodScheduled(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return strings.TrimSuffix(fmt.Sprint(c.Status, " ", c.Reason, ": ", c.Message), " : ")
		}
	}
	return ""
}

// Remove deletes an object without grace period, if it exists.
func (a API) Remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(a.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
}

// Created creates an object until the spec ends.
func Created[T client.Object](ctx context.Context, a API, object T) T {
	GinkgoHelper()
	Expect(a.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { a.Remove(ctx, object) })
	return object
}

// Change reads an object and writes it as edit changes it, and repeats that after a
// conflict.
func Change[T client.Object](ctx context.Context, a API, object T, edit func(T)) {
	GinkgoHelper()
	change(ctx, a, object, edit, func() error { return a.Update(ctx, object) })
}

// ChangeStatus is Change for the status.
func ChangeStatus[T client.Object](ctx context.Context, a API, object T, edit func(T)) {
	GinkgoHelper()
	change(ctx, a, object, edit, func() error { return a.Status().Update(ctx, object) })
}

func change[T client.Object](ctx context.Context, a API, object T, edit func(T), write func() error) {
	GinkgoHelper()
	Eventually(func() error {
		if err := a.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		edit(object)
		return write()
	}).Should(Succeed())
}

// Gather returns the metrics of the collectors.
func Gather(g Gomega, collectors []prometheus.Collector) []*dto.MetricFamily {
	registry := prometheus.NewRegistry()
	for _, collector := range collectors {
		g.Expect(registry.Register(collector)).To(Succeed())
	}
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	return families
}

// BoundAfterFlush returns scheduler_pod_scheduled_after_flush_total: the number of pods that
// were requeued by a flush and bound.
func BoundAfterFlush(collectors []prometheus.Collector) float64 {
	GinkgoHelper()
	const name = "scheduler_pod_scheduled_after_flush_total"
	for _, family := range Gather(Default, collectors) {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	Fail("there is no metric " + name)
	return 0
}
