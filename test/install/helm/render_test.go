package helm

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/test/support/operator"
)

// components are the kustomize components by the value of the chart.
var components = map[string]string{
	"highAvailability":    "components/high-availability",
	"priorityClass":       "components/priority-class",
	"networkPolicy":       "components/network-policy",
	"flowControl":         "components/flow-control",
	"extenders":           "components/extenders",
	"otherSchedulerLease": "components/other-scheduler-lease",
	"serviceMonitor":      "prometheus",
	"alerts":              "prometheus/alerts",
	"dashboard":           "grafana",
}

// objects are the objects of a manifest by kind, namespace and name.
type objects map[string]map[string]any

func parse(text string) objects {
	GinkgoHelper()
	all := objects{}
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var o map[string]any
		Expect(yaml.Unmarshal([]byte(document), &o)).To(Succeed())
		if o == nil {
			continue
		}
		meta := o["metadata"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		id := o["kind"].(string) + "/" + namespace + "/" + meta["name"].(string)
		Expect(all).NotTo(HaveKey(id), "the object is there twice")
		all[id] = o
	}
	return all
}

// renderChart returns the objects of the chart.
func renderChart(ctx context.Context, args ...string) objects {
	GinkgoHelper()
	text, err := helm(ctx, append([]string{"template", "berth", chart()}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	return parse(text)
}

// renderKustomize returns the objects of config/default with components, without the
// Namespace, which Helm creates.
func renderKustomize(ctx context.Context, folders ...string) objects {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Join(root, "bin"), 0o755)).To(Succeed())
	dir, err := os.MkdirTemp(filepath.Join(root, "bin"), "helm-")
	Expect(err).NotTo(HaveOccurred())
	defer os.RemoveAll(dir)
	overlay := "resources: [../../config/default]\ncomponents:\n"
	for _, folder := range folders {
		overlay += "- ../../config/" + folder + "\n"
	}
	Expect(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600)).To(Succeed())
	text, err := cp.Kubectl(ctx, nil, "kustomize", dir)
	Expect(err).NotTo(HaveOccurred())
	all := parse(text)
	Expect(all).To(HaveKey("Namespace//" + operator.Namespace))
	delete(all, "Namespace//"+operator.Namespace)
	return all
}

var _ = Describe("The rendered chart", func() {
	const unkept = "--set=crds.keep=false"

	It("is config/default", func(ctx SpecContext) {
		Expect(cmp.Diff(renderKustomize(ctx), renderChart(ctx, unkept))).To(BeEmpty(), "-kustomize +helm")
	})

	It("is config/default with each component that is enabled", func(ctx SpecContext) {
		for value, folder := range components {
			got := renderChart(ctx, unkept, "--set=components."+value+"=true")
			Expect(cmp.Diff(renderKustomize(ctx, folder), got)).To(BeEmpty(), "%s: -kustomize +helm", value)
		}
	})

	It("is config/production with its components", func(ctx SpecContext) {
		text, err := cp.Kubectl(ctx, nil, "kustomize", filepath.Join(root, "config", "production"))
		Expect(err).NotTo(HaveOccurred())
		want := parse(text)
		delete(want, "Namespace//"+operator.Namespace)
		got := renderChart(ctx, unkept, "--values="+filepath.Join(chart(), "values-production.yaml"))
		Expect(cmp.Diff(want, got)).To(BeEmpty(), "-kustomize +helm")
	})

	It("keeps the CRDs unless told otherwise, and has none if they are not to be installed", func(ctx SpecContext) {
		kinds := 0
		for id, o := range renderChart(ctx) {
			annotations, _ := o["metadata"].(map[string]any)["annotations"].(map[string]any)
			isKind := strings.HasPrefix(id, "CustomResourceDefinition/")
			Expect(annotations["helm.sh/resource-policy"] == "keep").To(Equal(isKind), id)
			if isKind {
				kinds++
			}
		}
		Expect(kinds).To(Equal(3))
		for id := range renderChart(ctx, "--set=crds.install=false") {
			Expect(id).NotTo(HavePrefix("CustomResourceDefinition/"))
		}
	})

	It("uses the release's namespace", func(ctx SpecContext) {
		elsewhere := []string{"--namespace=elsewhere", "--set=crds.install=false"}
		for value := range components {
			elsewhere = append(elsewhere, "--set=components."+value+"=true")
		}
		text, err := helm(ctx, append([]string{"template", "berth", chart()}, elsewhere...)...)
		Expect(err).NotTo(HaveOccurred())
		for id := range parse(text) {
			_, where, _ := strings.Cut(id, "/")
			Expect(where).To(Or(HavePrefix("/"), HavePrefix("elsewhere/"), HavePrefix("kube-system/berth-other-scheduler-lease-role")), id)
		}
		Expect(text).NotTo(ContainSubstring("namespace: " + operator.Namespace))
	})

	It("has the image and the flags of the values", func(ctx SpecContext) {
		digest := "sha256:" + strings.Repeat("ab", 32)
		manager := renderChart(ctx, "--set=image.repository=registry.example.com/berth,image.tag=v1,image.digest="+digest, "--set=args={--v=1}")["Deployment/berth-system/berth-manager"]
		text, err := yaml.Marshal(manager)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("image: registry.example.com/berth:v1@" + digest + "\n"))
		Expect(string(text)).To(ContainSubstring("- --v=1\n"))
	})

	DescribeTable("is rejected, with the name of the value,",
		func(ctx SpecContext, set, want string) {
			_, err := helm(ctx, "template", "berth", chart(), "--set="+set)
			Expect(err).To(MatchError(ContainSubstring(want)))
		},
		Entry("for an unknown component", "components.flowcontrol=true", "flowcontrol"),
		Entry("for an invalid digest", "image.digest=latest", "/image/digest"),
		Entry("for negative replicas", "replicas=-1", "/replicas"),
		Entry("for an unknown value", "replicaCount=3", "replicaCount"),
	)
})
