package main

import (
	"context"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// slots is the number of pods that the only node takes.
const slots = 3

var _ = Describe("A manager that gets SIGTERM", func() {
	It("finishes its Bindings, writes its results, and releases the Lease", func(ctx SpecContext) {
		const name = "ending"
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		// No namespace controller runs, and the next spec would hold a pod that is left.
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(name), client.GracePeriodSeconds(0))).To(Succeed())
		})
		node := fixture.Node("of-"+name).Capacity("cpu", "8", "memory", "8Gi", "pods", fmt.Sprint(slots)).Obj()
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })

		By("the Bindings of a manager are delayed")
		cfg, err := operator.AccountConfig(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		proxy, err := faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		defer proxy.Stop()
		released := make(chan struct{})
		proxy.SetFaults(func(faultproxy.Binding) *faultproxy.Fault { return &faultproxy.Fault{Hold: released, Commits: true} })
		kubeconfig, err := cp.WriteKubeconfig("proxy", proxy.Config(cfg))
		Expect(err).NotTo(HaveOccurred())
		m := startManager(ctx, "--kubeconfig="+kubeconfig)
		Expect(operator.ApplyProfile(ctx, cp, name, v1alpha1.SchedulingProfileSpec{})).To(Succeed())
		_, err = operator.UntilProgrammed(ctx, cp, name)
		Expect(err).NotTo(HaveOccurred())

		By("pods are being bound, and others do not fit")
		create := func(pod string) *corev1.Pod {
			p := fixture.Pod(name + "/" + pod).SchedulerName(name).Obj()
			p.UID = ""
			p.Spec.Containers = []corev1.Container{{Name: "app", Image: "none"}}
			Expect(admin.Create(ctx, p)).To(Succeed())
			return p
		}
		var binding, pending []*corev1.Pod
		for i := range slots {
			binding = append(binding, create(fmt.Sprint("binding-", i)))
		}
		Eventually(proxy.Bindings).Should(SatisfyAll(HaveLen(slots), HaveEach(HaveField("Delayed", true))))
		for i := range slots {
			pending = append(pending, create(fmt.Sprint("pending-", i)))
		}
		Eventually(scheduledCondition).WithArguments(ctx, pending[slots-1]).ShouldNot(BeNil())

		By("SIGTERM")
		ended := make(chan int, 1)
		go func() {
			defer GinkgoRecover()
			code, err := cp.Terminate(ctx, m.Process)
			Expect(err).NotTo(HaveOccurred())
			ended <- code
		}()
		Eventually(operator.Get).WithArguments(ctx, "http://"+m.Probes+"/readyz/shutdown").Should(HavePrefix("500 "))
		Expect(operator.Get(ctx, "http://"+m.Probes+"/livez")).To(Equal("200 ok"))
		Expect(ended).NotTo(Receive())
		Expect(proxy.Bindings()).To(HaveEach(HaveField("Delayed", true)), "the manager waits for its Bindings")
		late := create("late")
		close(released)
		var code int
		Eventually(ended).Should(Receive(&code))
		log, err := os.ReadFile(m.Log())
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(BeZero(), string(log))

		By("the pods and the Lease afterwards")
		lease, err := cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, "berth-manager", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()))
		for _, pod := range binding {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			Expect(pod.Spec.NodeName).To(Equal(node.Name), pod.Name)
			Expect(eventReasons(ctx, pod)).To(ContainElement("Scheduled"), pod.Name)
		}
		for _, pod := range pending {
			Expect(scheduledCondition(ctx, pod)).To(HaveField("Reason", corev1.PodReasonUnschedulable), pod.Name)
			Expect(eventReasons(ctx, pod)).To(ContainElement("FailedScheduling"), pod.Name)
			var why v1alpha1.SchedulingDecision
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &why)).To(Succeed())
			Expect(why.Status.Result).To(Equal(v1alpha1.ResultUnschedulable))
		}
		Expect(scheduledCondition(ctx, late)).To(BeNil(), "the pod was not written to")
		Expect(late.Spec.NodeName).To(BeEmpty())
		p, err := operator.Profile(ctx, cp, name)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Status.Totals).To(HaveField("Bound", BeEquivalentTo(slots)), "the last totals are published")
		Expect(admin.Delete(ctx, p)).To(Succeed())
	}, twoMinutes)
})

var _ = Describe("Of two managers", func() {
	It("both are ready and live, and either can be stopped first", func(ctx SpecContext) {
		two := managerSet{cp: cp, path: manager}
		for range 2 {
			Expect(two.start(ctx)).To(Succeed())
		}
		for _, m := range two.running {
			for _, path := range []string{"/livez", "/healthz", "/readyz", "/livez/loop", "/livez/leader-election"} {
				Expect(operator.Get(ctx, "http://"+m.Probes+path)).To(Equal("200 ok"), path)
			}
		}
		var leader int
		Eventually(func() (err error) { leader, err = two.leader(); return err }).Should(Succeed())
		Expect(two.stop(ctx, 1-leader)).To(Succeed(), "the follower")
		Expect(two.stop(ctx, 0)).To(Succeed())
	}, twoMinutes)
})

// scheduledCondition returns a pod's condition PodScheduled, or nil.
func scheduledCondition(ctx context.Context, pod *corev1.Pod) (*corev1.PodCondition, error) {
	if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return nil, err
	}
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i], nil
		}
	}
	return nil, nil
}

// eventReasons returns the reasons of a pod's Events.
func eventReasons(ctx context.Context, pod *corev1.Pod) (all []string, err error) {
	list, err := cp.Client().EventsV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, event := range list.Items {
		if event.Regarding.UID == pod.UID {
			all = append(all, event.Reason)
		}
	}
	return all, nil
}
