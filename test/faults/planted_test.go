package faults

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/checker"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/load"
)

// planted is a violation that the suite commits itself while a manager runs. The verdict that
// every spec ends with must report it, and nothing else.
type planted struct {
	sentence string
	// plant commits it.
	plant func(ctx context.Context, p *perturbed, s scene)
	// want are the invariants that are violated.
	want []checker.Invariant
	// always says that it is planted by `make test`, too.
	always bool
}

var _ = Describe("The verdict of a spec reports", Ordered, ContinueOnFailure, func() {
	var p *perturbed

	BeforeAll(func(ctx SpecContext) {
		p = startPerturbed(ctx)
		s := p.scene(plantedName)
		s.node(ctx)
		s.profile(ctx)
		p.admin.ExpectBound(ctx, s.create(ctx, s.pod("first").Requests("cpu", "100m").Valid()).(*corev1.Pod))
	})

	for _, row := range []planted{
		{"a pod that another client binds to a node on which it does not fit", bindElsewhere, []checker.Invariant{checker.I1, checker.I4}, true},
		{"a Binding with the decision of an earlier leader", bindAsEarlierLeader, []checker.Invariant{checker.I1, checker.I7}, false},
		{"a pod that waits although it fits, since the manager does not see the node", hideNode, []checker.Invariant{checker.I3}, false},
		{"a victim of no preemption", evict, []checker.Invariant{checker.I15}, false},
		{"a condition that names a pod of another namespace", nameForeignPod, []checker.Invariant{checker.I16}, false},
		{"a counter that goes back", countBack, []checker.Invariant{checker.I18}, false},
		{"a request that is forbidden", readSecrets, []checker.Invariant{checker.I10}, false},
		{"a write to an object that does not concern Berth", writeForeignPod, []checker.Invariant{checker.Foreign}, false},
	} {
		It(row.sentence, limit, func(ctx SpecContext) {
			if !row.always {
				long()
			}
			check := env.startChecker(ctx, nil)
			row.plant(ctx, p, p.scene(plantedName))
			report, err := check.End(ctx)
			Expect(err).NotTo(HaveOccurred())
			AddReportEntry("checker", report.String())
			found := map[checker.Invariant]bool{}
			for _, violation := range report.Violations {
				found[violation.Invariant] = true
			}
			Expect(found).To(HaveLen(len(row.want)), report.String())
			for _, i := range row.want {
				Expect(found).To(HaveKey(i), report.String())
			}
		})
	}
})

// plantedName is the name of the scene in which violations are planted.
const plantedName = "planted"

// bindTo binds a pod to the node of the scene, with these annotations.
func (s scene) bindTo(ctx context.Context, pod *corev1.Pod, annotations map[string]string) {
	GinkgoHelper()
	Expect(s.client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: s.name},
	}, metav1.CreateOptions{})).To(Succeed())
}

func bindElsewhere(ctx context.Context, _ *perturbed, s scene) {
	GinkgoHelper()
	pods := s.waits(ctx, s.pod("large").Requests("cpu", "2"))
	s.bindTo(ctx, pods[0], nil)
}

func bindAsEarlierLeader(ctx context.Context, p *perturbed, s scene) {
	GinkgoHelper()
	pods := s.waits(ctx, s.pod("late").Requests("cpu", "2"))
	last := s.create(ctx, s.pod("last").Requests("cpu", "100m").Valid()).(*corev1.Pod)
	p.admin.ExpectBound(ctx, last)
	last, err := s.client.CoreV1().Pods(namespace).Get(ctx, last.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var decision map[string]any
	Expect(json.Unmarshal([]byte(last.Annotations[v1alpha1.AnnotationDecision]), &decision)).To(Succeed())
	epoch, _ := decision["epoch"].(float64)
	decision["epoch"] = epoch - 1
	text, err := json.Marshal(decision)
	Expect(err).NotTo(HaveOccurred())
	s.bindTo(ctx, pods[0], map[string]string{v1alpha1.AnnotationDecision: string(text)})
}

func hideNode(ctx context.Context, p *perturbed, s scene) {
	GinkgoHelper()
	s.waits(ctx, s.pod("unseen").Requests("cpu", "2"))
	DeferCleanup(p.proxy.HoldWatches("nodes"))
	s.create(ctx, fixture.Node(s.name+"-unseen").Capacity("cpu", "2", "memory", "1Gi", "pods", "10").Label(sceneLabel, s.name).Obj())
}

func evict(ctx context.Context, p *perturbed, s scene) {
	GinkgoHelper()
	victim := s.create(ctx, s.pod("victim").Requests("cpu", "100m").Valid()).(*corev1.Pod)
	p.admin.ExpectBound(ctx, victim)
	apitest.ChangeStatus(ctx, s.admin, victim, func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: s.name + ": preempting to accommodate a higher priority pod",
		})
	})
}

func nameForeignPod(ctx context.Context, _ *perturbed, s scene) {
	GinkgoHelper()
	s.create(ctx, fixture.Pod("default/tenant-7").SchedulerName(foreign).Valid())
	pods := s.waits(ctx, s.pod("curious").Requests("cpu", "2"))
	apitest.ChangeStatus(ctx, s.admin, pods[0], func(pod *corev1.Pod) {
		scheduledCondition(pod).Message = "default/tenant-7 is in the way"
	})
}

func countBack(ctx context.Context, _ *perturbed, s scene) {
	GinkgoHelper()
	p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	Eventually(func(g Gomega) {
		g.Expect(s.admin.Get(ctx, types.NamespacedName{Name: s.name}, p)).To(Succeed())
		g.Expect(p.Status.Totals).To(HaveValue(HaveField("Bound", BeNumerically(">", 0))))
	}).Should(Succeed())
	apitest.ChangeStatus(ctx, s.admin, p, func(p *v1alpha1.SchedulingProfile) { p.Status.Totals.Bound = 0 })
}

func readSecrets(ctx context.Context, _ *perturbed, s scene) {
	GinkgoHelper()
	account, err := load.Client(s.accountConfig(ctx))
	Expect(err).NotTo(HaveOccurred())
	_, err = account.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}

func writeForeignPod(ctx context.Context, _ *perturbed, s scene) {
	GinkgoHelper()
	account, err := load.Client(s.accountConfig(ctx))
	Expect(err).NotTo(HaveOccurred())
	pod := s.create(ctx, podOf(foreign, s.name+"-foreign").Valid()).(*corev1.Pod)
	patch := []byte(`{"status":{"message":"written by Berth"}}`)
	Expect(account.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")).Error().NotTo(HaveOccurred())
}
