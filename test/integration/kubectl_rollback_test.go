package integration

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

const (
	rollbackConfig = `
apiVersion: berth.dev/v1alpha1
kind: PluginConfig
metadata: {name: NAME}
spec:
  plugin: NodeResourcesFit
  args: {scoringStrategy: {type: TYPE, resources: [{name: cpu, weight: 1}]}}
---`
	rollbackProfile = `
apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: NAME}
spec:
  plugins: {score: {enabled: [{name: NodeResourcesFit, weight: WEIGHT}]}}
  pluginConfig: [{name: NodeResourcesFit, configRef: {name: NAME}}]
---`
)

var _ = Describe("kubectl berth rollback", func() {
	for order, text := range map[string]string{
		"the PluginConfig first": rollbackConfig + rollbackProfile,
		"the profile first":      rollbackProfile + rollbackConfig,
	} {
		It("goes back to what was before a profile and its PluginConfig were applied together, "+order, twoMinutes, func(ctx SpecContext) {
			buildPlugin(ctx)
			name := "undo-" + strings.ToLower(strings.Fields(order)[1])
			p := &v1alpha1.SchedulingProfile{}
			p.Name = name
			DeferCleanup(func(ctx SpecContext) {
				Expect(kubectl(ctx, "delete", "sprof/"+name, "plugcfg/"+name, "--ignore-not-found")).Error().NotTo(HaveOccurred())
			})
			file := filepath.Join(GinkgoT().TempDir(), "both.yaml")
			apply := func(kind, weight string) {
				GinkgoHelper()
				manifest := strings.NewReplacer("NAME", name, "TYPE", kind, "WEIGHT", weight).Replace(text)
				Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
				Expect(kubectl(ctx, "apply", "-f", file)).Error().NotTo(HaveOccurred())
				Expect(kubectl(ctx, "wait", "--for=condition=Ready", "sprof/"+name)).Error().NotTo(HaveOccurred())
				Expect(kubectl(ctx, "wait", "--for=condition=Programmed", "plugcfg/"+name)).Error().NotTo(HaveOccurred())
				Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			}
			apply("MostAllocated", "5")
			before := *p.Status.Programmed
			Eventually(func(g Gomega) map[string]string { return revision(ctx, g, before.Revision).Annotations }).
				ShouldNot(HaveKey(v1alpha1.AnnotationProbation))
			apply("LeastAllocated", "2")

			revisions := &appsv1.ControllerRevisionList{}
			Expect(admin.List(ctx, revisions, client.MatchingLabels{v1alpha1.LabelProfile: name})).To(Succeed())
			Expect(revisions.Items).To(HaveLen(2), "what was applied together is one revision")

			printed := shell(ctx, "kubectl berth rollback "+name)
			Expect(printed).To(ContainSubstring(before.Revision))
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Hash).To(Equal(before.Hash), printed)
		})
	}
})
