package integration

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/convert"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// exportTo exports the autoscaler's configuration to a ConfigMap.
func exportTo(name string) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Exports = v1alpha1.Exports{Autoscaler: &v1alpha1.AutoscalerExport{ConfigMap: name}}
	}
}

var _ = Describe("The export for autoscalers", func() {
	It("is a ConfigMap in Berth's namespace as long as the profile asks for it", minute, func(ctx SpecContext) {
		p := createProfile(ctx, exportTo("for-the-autoscaler"), referFitConfig(createPluginConfig(ctx, scoringStrategy("MostAllocated")).Name))
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Ready True Ready", "Exported True Exported"))
		m := &v1.ConfigMap{}
		key := client.ObjectKey{Namespace: operator.Namespace, Name: "for-the-autoscaler"}
		held := func(g Gomega) string {
			g.Expect(admin.Get(ctx, key, m)).To(Succeed())
			return m.Data[export.Key]
		}
		Eventually(held).Should(And(ContainSubstring("schedulerName: "+p.Name), ContainSubstring("type: MostAllocated")))
		before := m.Data[export.Key]

		By("the ConfigMap is edited by hand")
		m.Data[export.Key] = "mine"
		Expect(admin.Update(ctx, m)).To(Succeed())
		Eventually(held).Should(Equal(before))

		By("the profile gets a spec that is rejected")
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { enableScore("NoSuch")(s); s.PercentageOfNodesToScore = 77 })
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Accepted False UnknownPlugin", "Exported True Exported"))
		Consistently(held, "300ms").Should(Equal(before))

		By("the profile gets a spec that a KubeSchedulerConfiguration cannot express")
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { resetPlugins(s); allowTeam("shop")(s) })
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Ready True Ready", "Exported False NotExpressible"))
		Expect(conditionMessage(p, v1alpha1.ConditionExported)).To(ContainSubstring("spec.allowedNamespaces: "))
		Eventually(held).Should(ContainSubstring("percentageOfNodesToScore: 77"))

		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Exports = v1alpha1.Exports{} })
		Eventually(func() bool { return apierrors.IsNotFound(admin.Get(ctx, key, m)) }).Should(BeTrue())
		Eventually(currentConditions(ctx, p)).ShouldNot(ContainElement(HavePrefix("Exported ")))
	})

	It("is deleted with its profile", minute, func(ctx SpecContext) {
		p := createProfile(ctx, exportTo("deleted-with-it"))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Exported True Exported"))
		Expect(admin.Delete(ctx, p)).To(Succeed())
		key := client.ObjectKey{Namespace: operator.Namespace, Name: "deleted-with-it"}
		Eventually(func() bool { return apierrors.IsNotFound(admin.Get(ctx, key, &v1.ConfigMap{})) }).Should(BeTrue())
	})

	It("does not overwrite another user's ConfigMap", minute, func(ctx SpecContext) {
		existing := apitest.Created(ctx, admin, &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "existing"}, Data: map[string]string{export.Key: "mine"},
		})
		p := createProfile(ctx, exportTo(existing.Name))
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Ready True Ready", "Exported False ConfigMapConflict"))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(existing), existing)).To(Succeed())
		Expect(existing.Data).To(Equal(map[string]string{export.Key: "mine"}))
	})
})

var _ = Describe("A profile that was converted to a KubeSchedulerConfiguration", func() {
	It("lets kube-scheduler bind the pods", minutes, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		createNode(ctx, env.node("n").Capacity("cpu", "1", "pods", "10"))
		p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: env.namespace + "-back"}}
		config := filepath.Join(GinkgoT().TempDir(), "scheduler.yaml")
		back := convertToKubeScheduler(ctx, "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: "+p.Name+"}\n"+
			"spec: {plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 5}], disabled: [{name: ImageLocality}]}},\n"+
			"  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}], queue: {maxBackoffSeconds: 20}}\n")
		Expect(back).To(ContainSubstring("podMaxBackoffSeconds: 20"))
		why, err := controlplane.NoScheduler(ctx)
		Expect(err).NotTo(HaveOccurred())
		if why != "" {
			Skip(why)
		}
		own := "clientConnection: {kubeconfig: " + cp.Kubeconfig() + "}\nleaderElection: {leaderElect: false}\n"
		Expect(os.WriteFile(config, []byte(back+own), 0o644)).To(Succeed())
		kubeScheduler, err := cp.KubeScheduler(config)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(kubeScheduler.Kill)
		DeferCleanup(func() {
			if CurrentSpecReport().Failed() {
				log, _ := os.ReadFile(kubeScheduler.Log())
				GinkgoWriter.Printf("kube-scheduler:\n%s\n", log)
			}
		})

		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "100m"))
		admin.ExpectBound(ctx, pod)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		Expect(pod.Annotations).NotTo(HaveKey(v1alpha1.AnnotationDecision), "Berth did not bind it")
	})
})

// convertToKubeScheduler converts a profile with `kubectl berth convert`.
func convertToKubeScheduler(ctx context.Context, profile string) string {
	GinkgoHelper()
	var out bytes.Buffer
	cmd := convert.New(verb.Env{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(profile), Out: &out, ErrOut: GinkgoWriter}})
	cmd.SetArgs([]string{"-f", "-", "--to", "kube-scheduler"})
	Expect(cmd.ExecuteContext(ctx)).To(Succeed())
	return out.String()
}
