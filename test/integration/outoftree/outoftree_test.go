package main

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/integration/outoftree/balance"
	"github.com/berthdev/berth/test/integration/outoftree/clearance"
	"github.com/berthdev/berth/test/integration/outoftree/coscheduling"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

func memberPod(i, of int) *fixture.PodBuilder {
	return newPod(fmt.Sprint("member-", i)).Label(coscheduling.GroupLabel, "group").Annotation(coscheduling.MembersAnnotation, fmt.Sprint(of)).Requests("cpu", "1")
}

func createClearance(ctx context.Context, name string, fields map[string]any) {
	GinkgoHelper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	obj.SetAPIVersion("example.com/v1")
	obj.SetKind("Clearance")
	obj.SetNamespace("default")
	obj.SetName(name)
	apitest.Created(ctx, admin, obj)
}

// eventsOf returns the reasons of the Events about an object.
func eventsOf(ctx context.Context, name string) func() []string {
	return func() (reasons []string) {
		var list eventsv1.EventList
		Expect(admin.List(ctx, &list)).To(Succeed())
		for _, e := range list.Items {
			if e.Regarding.Name == name {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}

var _ = Describe("A custom resource whose events requeue pods", Ordered, func() {
	It("is watched once rights and CRD exist; until then the profile reports what is missing", twoMinutes, func(ctx SpecContext) {
		Eventually(degradedMessage(ctx)).Should(And(
			ContainSubstring("events of clearances.v1.example.com are not received, so pods that Clearance rejected may wait longer"),
			ContainSubstring("forbidden")))
		Eventually(eventsOf(ctx, "foreign")).Should(ContainElement("EventsMissed"))
		createNode(ctx, fixture.Node("n1"))
		pending := admin.Pods(ctx, newPod("pending").Label(clearance.ClearanceLabel, "a"))
		admin.ExpectRefused(ctx, "clearance a is not granted", pending...)

		kubectlApply(ctx, "testdata/rights.yaml")
		Eventually(degradedMessage(ctx)).Should(ContainSubstring("the server could not find the requested resource"))
		Expect(cp.InstallCRDs(ctx, "testdata/crd.yaml")).To(Succeed())
		Eventually(degradedMessage(ctx)).Should(BeEmpty())
		createClearance(ctx, "a", map[string]any{"granted": true})
		admin.ExpectBound(ctx, pending...)
	})

	It("requeues only the pods that it concerns", minute, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1"))
		pods := admin.Pods(ctx, newPod("one").Label(clearance.ClearanceLabel, "one"), newPod("two").Label(clearance.ClearanceLabel, "two"))
		admin.ExpectRefused(ctx, "is not granted", pods...)
		createClearance(ctx, "one", map[string]any{"granted": false})
		createClearance(ctx, "two", map[string]any{"granted": true})
		admin.ExpectBound(ctx, pods[1])
		Expect(currentPod(ctx, pods[0]).Spec.NodeName).To(BeEmpty())
		one := &unstructured.Unstructured{}
		one.SetAPIVersion("example.com/v1")
		one.SetKind("Clearance")
		one.SetNamespace("default")
		one.SetName("one")
		Expect(admin.Patch(ctx, one, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"granted":true}}`)))).To(Succeed())
		admin.ExpectBound(ctx, pods[0])
	})

	It("is read with other arguments after a swap, and the old informer is stopped", twoMinutes, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1"))
		createClearance(ctx, "vip", map[string]any{"vip": true})
		pending := admin.Pods(ctx, newPod("pending").Label(clearance.ClearanceLabel, "vip"))
		admin.ExpectRefused(ctx, "clearance vip is not granted", pending...)
		informers := countGoroutines(ctx, "created by github.com/berthdev/berth/test/integration/outoftree/clearance.New")
		Eventually(informers).Should(Equal(1))
		handlers := countGoroutines(ctx, "cache.(*processorListener).run")()
		for _, field := range []string{"one", "two", "vip"} {
			changeArguments(ctx, field)
		}
		admin.ExpectBound(ctx, pending...)
		Eventually(informers).Should(Equal(1))
		Eventually(countGoroutines(ctx, "cache.(*processorListener).run")).Should(Equal(handlers))
	})
})

// changeArguments makes Clearance read another field, and changes the timeout of
// Coscheduling.
func changeArguments(ctx context.Context, field string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"spec":{"pluginConfig":[{"name":"Coscheduling","args":{"permitSeconds":%d}},{"name":"Clearance","args":{"field":%q}}]}}`, 300+len(field), field)
	profile := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
	Expect(admin.Patch(ctx, profile, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	_, err := operator.UntilProgrammed(ctx, cp, "foreign")
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("A group of pods", func() {
	It("waits until it is complete, and is bound together", minute, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1").Capacity("cpu", "8", "pods", "10"))
		first := admin.Pods(ctx, memberPod(1, 3), memberPod(2, 3))
		admin.ExpectRefused(ctx, "of 3 members exist", first...)
		last := admin.Pods(ctx, memberPod(3, 3))
		admin.ExpectBound(ctx, append(first, last...)...)
		Eventually(eventsOf(ctx, "member-3")).Should(ContainElement("BoundTogether"))
	})

	It("is not bound in part, and is bound when there is room for all pods", minute, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1").Capacity("cpu", "2", "pods", "10"))
		pods := admin.Pods(ctx, memberPod(1, 3), memberPod(2, 3), memberPod(3, 3))
		Eventually(func() (rejected int) {
			for _, pod := range pods {
				for _, c := range currentPod(ctx, pod).Status.Conditions {
					if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
						rejected++
					}
				}
			}
			return rejected
		}).Should(Equal(3))
		for _, pod := range pods {
			Expect(currentPod(ctx, pod).Spec.NodeName).To(BeEmpty())
		}
		createNode(ctx, fixture.Node("n2").Capacity("cpu", "2", "pods", "10"))
		admin.ExpectBound(ctx, pods...)
	})
})

var _ = Describe("The Handle and the CycleState of an out-of-tree plugin", func() {
	It("keep state from PreFilter to PreBind", minute, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1"))
		createNode(ctx, fixture.Node("n2"))
		pods := admin.Pods(ctx, newPod("first"), newPod("second"))
		admin.ExpectBound(ctx, pods...)
		on := map[string]bool{}
		for _, pod := range pods {
			current := currentPod(ctx, pod)
			on[current.Spec.NodeName] = true
			Expect(current.Annotations[balance.PodCountsAnnotation]).To(Equal(current.Spec.NodeName + " had 0 pods, 0 in the snapshot"))
		}
		Expect(on).To(HaveLen(2), "the node with fewer pods scores higher")
	})

	It("let PostFilter evaluate copies, and a node's label requeues a rejected pod", minute, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1").Label(balance.MaxPodsLabel, "1"))
		admin.ExpectBound(ctx, admin.Pods(ctx, newPod("existing"))...)
		pending := admin.Pods(ctx, newPod("pending"))
		admin.ExpectRefused(ctx, "node(s) had as many pods as they may", pending...)
		admin.ExpectRefused(ctx, "one pod less on n1 would be enough", pending...)
		n1 := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		Expect(admin.Patch(ctx, n1, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+balance.MaxPodsLabel+`":"2"}}}`)))).To(Succeed())
		admin.ExpectBound(ctx, pending...)
	})

	It("let PreEnqueue gate a pod until its label is removed", minute, func(ctx SpecContext) {
		createNode(ctx, fixture.Node("n1"))
		deferred := admin.Pods(ctx, newPod("deferred").Label(clearance.DeferredLabel, "yes"))[0]
		admin.ExpectBound(ctx, admin.Pods(ctx, newPod("other"))...)
		Expect(currentPod(ctx, deferred).Spec.NodeName).To(BeEmpty())
		Expect(admin.Patch(ctx, deferred.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+clearance.DeferredLabel+`":null}}}`)))).To(Succeed())
		admin.ExpectBound(ctx, deferred)
	})
})
