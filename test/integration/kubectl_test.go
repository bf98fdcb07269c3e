package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/readme"
)

// buildPlugin builds bin/kubectl-berth, which is on the PATH of what specs run.
func buildPlugin(ctx SpecContext) {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", "bin/", "./cmd/kubectl-berth")
	build.Dir, build.Stdout, build.Stderr = moduleRoot(), GinkgoWriter, GinkgoWriter
	Expect(build.Run()).To(Succeed())
}

var _ = Describe("The kubectl plugin", Ordered, func() {
	BeforeAll(buildPlugin, NodeTimeout(10*time.Minute))

	It("prints what docs/kubectl.md shows", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for name, cpu := range map[string]string{"a-1": "4", "a-2": "8", "a-3": "16"} {
			aNode(ctx, fixture.Node(name).Offers("cpu", cpu, "pods", "110"))
		}
		DeferCleanup(func(ctx SpecContext) {
			_, _ = kubectl(ctx, "delete", "sprof,plugcfg,deployment", "-n", "default", "--all", "--ignore-not-found")
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		forget(ctx, "batch")
		expectPage(ctx, "kubectl.md")
	})

	It("shows Berth in the ten commands of README.md", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		for name, cpu := range map[string]string{"a-1": "4", "a-2": "8", "a-3": "16"} {
			aNode(ctx, fixture.Node(name).Offers("cpu", cpu, "pods", "110"))
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "delete", "sprof/tour", "--ignore-not-found")).Error().NotTo(HaveOccurred())
			Expect(admin.DeleteAllOf(ctx, &v1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		forget(ctx, "tour")
		tour, _ := readme.Section(expectPlayed(ctx, "README.md", timeless), "The tour")
		Expect(strings.Count(tour, "\n$ ")).To(Equal(10))
	})

	It("says offline what the conditions say", minute, func(ctx SpecContext) {
		p := aProfile(ctx, scoring("NodeResourceFit"), fitFrom("nowhere"))
		Eventually(now(ctx, p)).Should(ContainElements("Accepted False UnknownPlugin", "ResolvedRefs False PluginConfigNotFound"))
		written := shell(ctx, "kubectl get sprof "+p.Name+" -o yaml | kubectl berth lint -f - 2>/dev/null || true")
		Expect(written).To(ContainSubstring("Accepted=False, UnknownPlugin:"))
		Expect(written).To(ContainSubstring("ResolvedRefs=False, PluginConfigNotFound:"))
		for line := range strings.Lines(written) {
			if fault, ok := strings.CutPrefix(line, "  "); ok {
				said := message(p, v1alpha1.ConditionAccepted) + message(p, v1alpha1.ConditionResolvedRefs)
				Expect(said).To(ContainSubstring(strings.TrimSpace(fault)))
			}
		}
	})

	It("works with the rights of who may read a pod and nothing else", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		for _, line := range []string{
			"create role tenant -n " + y.name + " --verb=get --resource=pods",
			"create rolebinding tenant -n " + y.name + " --role=tenant --user=tenant",
		} {
			Expect(kubectl(ctx, strings.Fields(line)...)).Error().NotTo(HaveOccurred())
		}
		said := shell(ctx, filepath.Join("bin", "kubectl-berth")+" explain pod/web --as=tenant -n "+y.name)
		Expect(said).To(ContainSubstring("Profile    " + p.Name))
		Expect(said).To(ContainSubstring("Left out is what the profiles say"))
		checked := shell(ctx, "kubectl berth check --as=tenant -n "+y.name+" || echo exit code $?")
		Expect(checked).To(MatchRegexp(`explain: you may not get schedulingdecisions\.berth\.dev`))
		Expect(checked).To(MatchRegexp(`(?m)^error  leader +the Lease berth-system/berth-manager: .* is forbidden`))
		Expect(checked).To(HaveSuffix("could not be read: crds, leader, profiles, pods; whether that is well is unknown\nexit code 2\n"))
	})
})
