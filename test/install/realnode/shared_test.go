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
	// pairs bounds how often both schedulers are asked at once until both give away
	// the same CPU. It happens in one of a few.
	pairs = 60
	// sharers is how many pods each scheduler gets at once.
	sharers = 6
)

// sharesItsNode specifies what docs/guide/sharing-nodes.md says of two schedulers that
// give away the same CPU.
func sharesItsNode() {
	It("has a pod that the kubelet refuses as OutOfcpu replaced, when kube-scheduler gave away the same CPU", fewMinutes, func(ctx SpecContext) {
		free := freeCPU(ctx)
		// All pods of one scheduler fit, and not one more.
		each := free / sharers
		var refused *corev1.Pod
		for pair := 0; pair < pairs && refused == nil; pair++ {
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
			Eventually(placedOrRefused).WithArguments(ctx, sets).Should(Equal(sharers))
			refused = refusedOf(ctx, sets[0])
			if refused != nil {
				By(fmt.Sprintf("pair %d: the kubelet refused %s", pair, refused.Name))
				expectReplaced(ctx, sets, *refused)
			}
			for _, set := range sets {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground)))).To(Succeed())
			}
			Eventually(func(g Gomega) []corev1.Pod { return podsOf(ctx, g, sets...) }).Should(BeEmpty())
		}
		Expect(refused).NotTo(BeNil(), "in %d tries the two schedulers never gave away the same CPU", pairs)
	})
}

// freeCPU returns the CPU of the real node that no pod asks for, in millicores, once
// the pods that are being deleted have left.
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
	pod.Labels = map[string]string{"sharer": name}
	pod.Spec.SchedulerName = scheduler
	container := &pod.Spec.Containers[0]
	container.Args, container.LivenessProbe, container.ReadinessProbe = []string{"pause"}, nil, nil
	container.Resources.Requests = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(sharers)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
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

// placedOrRefused returns how many pods of the sets run, once the others were told that
// they do not fit; else fewer.
func placedOrRefused(ctx context.Context, sets []*appsv1.ReplicaSet) int {
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

// refusedOf returns a pod of the set that the kubelet refused; nil when there is none.
func refusedOf(ctx context.Context, set *appsv1.ReplicaSet) *corev1.Pod {
	for _, pod := range podsOf(ctx, Default, set) {
		if pod.Status.Phase == corev1.PodFailed {
			Expect(pod.Status.Reason).To(Equal("OutOfcpu"), pod.Status.Message)
			return &pod
		}
	}
	return nil
}

// expectReplaced checks that the ReplicaSet made another pod in the place of the
// refused one, which waits as Unschedulable, and runs when the other scheduler's pods
// leave: a refused pod takes no room.
func expectReplaced(ctx context.Context, sets []*appsv1.ReplicaSet, refused corev1.Pod) {
	GinkgoHelper()
	Expect(refused.Annotations).To(HaveKey("berth.dev/decision"), "Berth had bound it")
	Expect(admin.Delete(ctx, sets[1], client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	Eventually(func(g Gomega) int {
		running := 0
		for _, pod := range podsOf(ctx, g, sets[0]) {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running
	}).Should(Equal(sharers))
}
