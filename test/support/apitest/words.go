// Package apitest is how suites speak of objects on a real API server: they come,
// change, stand somewhere, and go with their spec.
package apitest

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

// API is an API server as a suite's client reaches it. Its methods fail the spec
// that calls them.
type API struct{ client.Client }

// Pod creates a pod, which goes at once when the spec ends.
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

// Place reads a pod again and returns its node, empty while it has none.
func (a API) Place(ctx context.Context, pod *v1.Pod) func(Gomega) string {
	return func(g Gomega) string {
		g.Expect(a.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return pod.Spec.NodeName
	}
}

// ExpectBound waits until each pod has a node.
func (a API) ExpectBound(ctx context.Context, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(a.Place(ctx, pod)).ShouldNot(BeEmpty(), func() string { return pod.Name + " stands at: " + Scheduled(pod) })
	}
}

// ExpectRefused waits until each pod's condition says that it is not scheduled, with a
// message that contains this one.
func (a API) ExpectRefused(ctx context.Context, message string, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(a.Standing(ctx, pod)).Should(And(HavePrefix("False "), ContainSubstring(message)), pod.Name)
	}
}

// Standing reads a pod again and returns what Scheduled says of it.
func (a API) Standing(ctx context.Context, pod *v1.Pod) func(Gomega) string {
	return func(g Gomega) string {
		g.Expect(a.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return Scheduled(pod)
	}
}

// Scheduled is a pod's condition PodScheduled as it was read last, "status reason:
// message", or the status alone where it says no more; empty where it has none.
func Scheduled(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return strings.TrimSuffix(fmt.Sprint(c.Status, " ", c.Reason, ": ", c.Message), " : ")
		}
	}
	return ""
}

// Remove deletes an object, whatever its grace period, and waits for nobody. That
// it is gone already is no failure.
func (a API) Remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(a.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
}

// Created creates an object as it is written, which goes when the spec ends.
func Created[T client.Object](ctx context.Context, a API, object T) T {
	GinkgoHelper()
	Expect(a.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { a.Remove(ctx, object) })
	return object
}

// Change writes an object's spec and metadata as edit says, as often as somebody
// else was faster.
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
