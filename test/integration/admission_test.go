package integration

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
)

// What the API server refuses when somebody applied config/admission. A policy
// counts once the API server has compiled it, and a little longer than it is
// there: specs wait for both.
var _ = Describe("The policies of config/admission", func() {
	It("let a namespace's pods name the profiles that its labels allow", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		ask := func(ctx context.Context) error { return admin.Create(ctx, y.pod(p, "web").Valid(), client.DryRunAll) }
		thePolicy(ctx, "profiles-by-namespace.yaml", ask)

		Expect(ask(ctx)).To(MatchError(ContainSubstring("spec.schedulerName: namespace " + y.name + " may not use profile " + p.Name +
			": it has no label profiles.berth.dev/" + p.Name + "=allowed")))
		Expect(admin.Create(ctx, y.pod(p, "other").SchedulerName(v1.DefaultSchedulerName).Valid(), client.DryRunAll)).To(Succeed())
		label := func(value string) {
			_, err := kubectl(ctx, "label", "namespace", y.name, "profiles.berth.dev/"+p.Name+value)
			Expect(err).NotTo(HaveOccurred())
		}
		label("=allowed")
		Eventually(ask).WithContext(ctx).Should(Succeed())
		label("-")
		Eventually(ask).WithContext(ctx).ShouldNot(Succeed())
	})

	It("hold Berth to what its Bindings carry", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		node := aNode(ctx, y.node("n").Label(v1.LabelTopologyZone, "z1").Label(v1.LabelTopologyRegion, "r1"))
		expectReady(ctx, p)
		bind := binding(ctx, aPod(ctx, y.pod(p, "waits").NodeSelector("no", "where")), node)
		thePolicy(ctx, "what-a-binding-carries.yaml", func(ctx context.Context) error { return bind(ctx, nil, foreign) })

		Expect(bind(ctx, nil, foreign)).To(MatchError(ContainSubstring(
			"metadata.annotations: a Binding of Berth carries berth.dev/decision alone, has pod-security.example.com/exempt")))
		Expect(bind(ctx, map[string]string{"app": "bank"}, nil)).To(MatchError(ContainSubstring(
			"metadata.labels: a Binding of Berth carries the labels of zone and region alone, has app")))
		bound := aPod(ctx, y.pod(p, "web"))
		admin.ExpectBound(ctx, bound)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(bound), bound)).To(Succeed())
		Expect(bound.Labels).To(HaveKeyWithValue(v1.LabelTopologyZone, "z1"), "the API server's own labels pass")
		Expect(bound.Annotations).To(HaveKey(v1alpha1.AnnotationDecision))
	})

	It("keep a profile for which pods wait, unless it is meant", minute, func(ctx SpecContext) {
		p := aProfileThatIsWaitedFor(ctx, aYard(ctx))
		remove := removing(p)
		thePolicy(ctx, "no-orphaned-pods.yaml", remove)

		Expect(remove(ctx)).To(MatchError(ContainSubstring("1 pods wait for profile " + p.Name +
			": bind or delete them first, or annotate it with berth.dev/delete-anyway=true")))
		_, err := kubectl(ctx, "annotate", "sprof", p.Name, "berth.dev/delete-anyway=true")
		Expect(err).NotTo(HaveOccurred())
		Expect(remove(ctx)).To(Succeed())
		_, err = kubectl(ctx, "annotate", "sprof", p.Name, "berth.dev/delete-anyway-")
		Expect(err).NotTo(HaveOccurred())
		Expect(remove(ctx)).NotTo(Succeed())
	})
})

// foreign is an annotation that Berth's Bindings may not carry.
var foreign = map[string]string{"pod-security.example.com/exempt": "true"}

// binding asks whether Berth may bind a pod with these labels and annotations.
func binding(ctx context.Context, pod *v1.Pod, node *v1.Node) func(ctx context.Context, labels, annotations map[string]string) error {
	GinkgoHelper()
	account := kubernetes.NewForConfigOrDie(accountConfig(ctx))
	return func(ctx context.Context, labels, annotations map[string]string) error {
		return account.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: labels, Annotations: annotations},
			Target:     v1.ObjectReference{Kind: "Node", Name: node.Name},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

// aProfileThatIsWaitedFor is one whose status says that a pod waits for it.
func aProfileThatIsWaitedFor(ctx context.Context, y yard) *v1alpha1.SchedulingProfile {
	GinkgoHelper()
	p := aProfile(ctx, publishingEvery(1))
	expectReady(ctx, p)
	aPod(ctx, y.pod(p, "web").NodeSelector("no", "where"))
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		g.Expect(p.Status.Queue).To(HaveValue(HaveField("Pending", BeEquivalentTo(1))))
	}).Should(Succeed())
	return p
}

// removing asks whether a profile may be deleted.
func removing(p *v1alpha1.SchedulingProfile) func(context.Context) error {
	return func(ctx context.Context) error { return admin.Delete(ctx, p, client.DryRunAll) }
}

// thePolicy applies a file of config/admission, and waits until what it refuses
// is refused; when the spec ends, until it is not.
func thePolicy(ctx context.Context, file string, refused func(context.Context) error) {
	GinkgoHelper()
	file = policyFile(file)
	Expect(refused(ctx)).To(Succeed(), "before the policy is there")
	_, err := kubectl(ctx, "apply", "--server-side", "-f", file)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", file)
		Expect(err).NotTo(HaveOccurred())
		Eventually(refused).WithContext(ctx).Should(Succeed(), "after the policy is gone")
	})
	Eventually(refused).WithContext(ctx).Should(MatchError(ContainSubstring("ValidatingAdmissionPolicy")))
}

// policyFile is where a file of config/admission is.
func policyFile(name string) string {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(root, "config", "admission", name)
}
