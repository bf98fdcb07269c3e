package realnode

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
)

const (
	// maxPairs is how often both schedulers get pods at once until both assign the same
	// CPU. It usually happens within a few tries.
	maxPairs = 60
	// podsPerScheduler is how many pods each scheduler gets at once.
	podsPerScheduler = 6
)

// specSharedNode specifies what docs/guide/sharing-nodes.md says about two schedulers that
// assign the same CPU.
func specSharedNode() {
	It("has a pod replaced that the kubelet rejects as OutOfcpu, when kube-scheduler assigned the same CPU", specTimeout, func(ctx SpecContext) {
		free := freeCPU(ctx)
		// All pods of one scheduler fit, and not one more.
		each := free / podsPerScheduler
		var refused *corev1.Pod
		for pair := 0; pair < maxPairs && refused == nil; pair++ {
			sets := []*appsv1.ReplicaSet{
				replicaSet(fmt.Sprintf("berth-%d", pair), profile, each),
				replicaSet(fmt.Sprintf("kube-%d", pair), corev1.DefaultSchedulerName, each),
			}
			var both sync.WaitGroup
			for _, set := range sets {
				both.Go(func() {
					defer GinkgoRecover()
					Expect(admin.Create(ctx, set)).To(Succeed())
				})
			}
			both.Wait()
			Eventually(runningPods).WithArguments(ctx, sets).Should(Equal(podsPerScheduler))
			refused = rejectedPod(ctx, sets[0])
			if refused != nil {
				By(fmt.Sprintf("pair %d: the kubelet rejected %s", pair, refused.Name))
				expectReplaced(ctx, sets, *refused)
			}
			for _, set := range sets {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground)))).To(Succeed())
			}
			Eventually(func(g Gomega) []corev1.Pod { return podsOf(ctx, g, sets...) }).Should(BeEmpty())
		}
		Expect(refused).NotTo(BeNil(), "in %d tries the two schedulers never assigned the same CPU", maxPairs)
	})
}

// freeCPU returns the CPU of the real node that no pod requests, in millicores, once no pod
// is being deleted.
func freeCPU(ctx context.Context) (free int64) {
	GinkgoHelper()
	real, err := cluster.Client().CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		free = real.Status.Allocatable.Cpu().MilliValue()
		pods, err := cluster.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))
		for _, pod := range pods.Items {
			for _, c := range pod.Spec.Containers {
				free -= c.Resources.Requests.Cpu().MilliValue()
			}
		}
	}).Should(Succeed())
	return free
}

func replicaSet(name, scheduler string, milliCPU int64) *appsv1.ReplicaSet {
	pod := webPod(metav1.NamespaceDefault, "")
	pod.Labels = map[string]string{"set": name}
	pod.Spec.SchedulerName = scheduler
	container := &pod.Spec.Containers[0]
	withoutProbes(container, "pause")
	container.Resources.Requests = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(podsPerScheduler)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}
}

func podsOf(ctx context.Context, g Gomega, sets ...*appsv1.ReplicaSet) []corev1.Pod {
	var all []corev1.Pod
	for _, set := range sets {
		var list corev1.PodList
		g.Expect(admin.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Template.Labels))).To(Succeed())
		all = append(all, list.Items...)
	}
	return all
}

// runningPods returns the number of running pods of the sets, or 0 while one is neither
// running nor rejected nor unschedulable.
func runningPods(ctx context.Context, sets []*appsv1.ReplicaSet) int {
	running, open := 0, 0
	for _, pod := range podsOf(ctx, Default, sets...) {
		switch {
		case pod.Status.Phase == corev1.PodRunning:
			running++
		case pod.Status.Phase == corev1.PodFailed, failedCondition(&pod) != "":
		default:
			open++
		}
	}
	if open > 0 {
		return 0
	}
	return running
}

// rejectedPod returns a pod of the set that the kubelet rejected, or nil.
func rejectedPod(ctx context.Context, set *appsv1.ReplicaSet) *corev1.Pod {
	for _, pod := range podsOf(ctx, Default, set) {
		if pod.Status.Phase == corev1.PodFailed {
			Expect(pod.Status.Reason).To(Equal("OutOfcpu"), pod.Status.Message)
			return &pod
		}
	}
	return nil
}

// expectReplaced expects the ReplicaSet to have another pod instead of the rejected one,
// which is Unschedulable, and runs when the other scheduler's pods are deleted: a rejected
// pod uses no resources.
func expectReplaced(ctx context.Context, sets []*appsv1.ReplicaSet, refused corev1.Pod) {
	GinkgoHelper()
	Expect(refused.Annotations).To(HaveKey("berth.dev/decision"), "Berth bound it")
	Expect(admin.Delete(ctx, sets[1], client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	Eventually(func(g Gomega) int {
		running := 0
		for _, pod := range podsOf(ctx, g, sets[0]) {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running
	}).Should(Equal(podsPerScheduler))
}
