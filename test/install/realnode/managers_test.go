package realnode

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

// lease is the name of the leaders' Lease and deployment that of the managers.
const lease, deployment = "berth-manager", "berth-manager"

// expectReady waits until so many replicas of the manager are ready, and no pod of an
// earlier one is left, one of them leads, and the profile that it creates is Ready.
func expectReady(ctx context.Context, replicas int32) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var d appsv1.Deployment
		g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: deployment}, &d)).To(Succeed())
		g.Expect(d.Status.ReadyReplicas).To(Equal(replicas))
		g.Expect(managers(ctx, g)).To(HaveLen(int(*d.Spec.Replicas)))
		leads := leader(ctx, g, operator.Namespace)
		g.Expect(leads.Status.ContainerStatuses).To(HaveEach(HaveField("Ready", true)))
	}).WithContext(ctx).Should(Succeed())
	// The leader creates the first profile a moment after it acquired the Lease, and
	// kubectl wait fails at once while there is none.
	Eventually(func() error {
		_, err := cluster.Kubectl(ctx, nil, "wait", "--for=condition=Ready", "sprof", "--all", "--timeout=60s")
		return err
	}).WithContext(ctx).Should(Succeed())
}

// managers returns the pods of the manager.
func managers(ctx context.Context, g Gomega) []corev1.Pod {
	var list corev1.PodList
	g.Expect(admin.List(ctx, &list, client.InNamespace(operator.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "berth"})).To(Succeed())
	return list.Items
}

// leader returns the pod that holds the Lease.
func leader(ctx context.Context, g Gomega, namespace string) corev1.Pod {
	var l coordinationv1.Lease
	g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: lease}, &l)).To(Succeed())
	g.Expect(l.Spec.HolderIdentity).NotTo(BeNil(), "nobody holds the Lease")
	name, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	var pod corev1.Pod
	g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod)).To(Succeed())
	return pod
}

// process returns the id of the manager's process in its pod, on this machine.
func process(pod corev1.Pod) int {
	GinkgoHelper()
	Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
	pid, err := node.ProcessOf(pod.Status.ContainerStatuses[0].ContainerID, "manager")
	Expect(err).NotTo(HaveOccurred())
	return pid
}

func signalProcess(pid int, s syscall.Signal) {
	GinkgoHelper()
	Expect(syscall.Kill(pid, s)).To(Succeed())
}

// restarted reads a pod again and returns how its container ended last; nil while it
// was not restarted since pod was read.
func restarted(ctx context.Context, pod corev1.Pod) func(Gomega) *corev1.ContainerStateTerminated {
	return func(g Gomega) *corev1.ContainerStateTerminated {
		var now corev1.Pod
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(&pod), &now)).To(Succeed())
		g.Expect(now.Status.ContainerStatuses).To(HaveLen(1))
		if now.Status.ContainerStatuses[0].RestartCount == pod.Status.ContainerStatuses[0].RestartCount {
			return nil
		}
		return now.Status.ContainerStatuses[0].LastTerminationState.Terminated
	}
}

// managerLogs returns the logs of the managers' containers by their path.
func managerLogs() map[string]string {
	logs := map[string]string{}
	for _, pattern := range []string{"*/manager/*.log", "kube-system_berth-*/manager/*.log"} {
		files, _ := filepath.Glob(filepath.Join(cluster.PodLogs(), pattern)) // the pattern is sound
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				text = []byte(err.Error())
			}
			logs[strings.TrimPrefix(file, cluster.PodLogs())] = string(text)
		}
	}
	return logs
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
