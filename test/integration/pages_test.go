package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/docs"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
)

// documentation is every page; what goes wrong when they are read is a fault of the
// first spec.
func documentation() ([]docs.Page, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return nil, err
	}
	return docs.All(root)
}

// before is what a page takes for granted, by its path.
var before = map[string]string{
	"docs/guide/default-scheduler.md": "kubectl create -f - <<EOF\n" +
		"{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: default-scheduler, annotations: {berth.dev/take-over: \"true\"}}, spec: {}}\nEOF",
	"docs/plugins/README.md": "kubectl wait --for=condition=Ready sprof/batch",
}

// after takes away what a page leaves behind, beside the objects that it shows.
const after = "kubectl delete pods --all -n default --force --grace-period=0 --ignore-not-found 2>/dev/null; " +
	"kubectl delete deployments,sprof,plugcfg --all -n default --ignore-not-found --wait=false; " +
	"kubectl delete namespace red-shop --ignore-not-found --wait=false"

var _ = Describe("The documentation", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", "bin/", "./cmd/kubectl-berth")
		build.Dir, build.Stdout, build.Stderr = moduleRoot(), GinkgoWriter, GinkgoWriter
		Expect(build.Run()).To(Succeed())
	}, NodeTimeout(10*time.Minute))

	BeforeEach(func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { shell(ctx, after) })
	})

	for _, path := range []string{"guide/second-scheduler.md", "guide/leaving.md", "guide/migration.md"} {
		It("shows what the commands of "+path+" print", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
			// Of nodes with equal scores the first one is taken. A Manager begins to look
			// for it where it ended for the pod before: a new one at the first node. Nodes
			// that are there when it starts come by name, later ones as they are created.
			stopManager()
			berth = startManager(ctx)
			fourNodes(ctx)
			for _, profile := range []string{"shop", "web", "batch"} {
				forget(ctx, profile)
			}
			expectPage(ctx, filepath.FromSlash(path))
		})
	}

	It("has manifests that the API server takes", SpecTimeout(4*time.Minute), func(ctx SpecContext) {
		all, err := documentation()
		Expect(err).NotTo(HaveOccurred())
		monitoring := filepath.Join(moduleRoot(), "test", "install", "monitoring", "kinds.yaml")
		Expect(cp.InstallCRDs(ctx, monitoring)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(kubectl(ctx, "delete", "--wait=false", "-f", monitoring)).Error().NotTo(HaveOccurred())
		})
		for _, page := range all {
			for _, block := range page.Blocks {
				if block.Language != "yaml" {
					continue
				}
				text, err := block.Manifests(moduleRoot())
				Expect(err).NotTo(HaveOccurred())
				if strings.Contains(text, "kind: Kustomization") {
					expectOverlay(ctx, text)
					continue
				}
				_, err = cp.Kubectl(ctx, strings.NewReader(text), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
				Expect(err).NotTo(HaveOccurred(), "%s:%d", page.Path, block.Line)
			}
		}
	})

	all, err := documentation()
	It("is readable", func() { Expect(err).NotTo(HaveOccurred()) })
	for _, page := range all {
		var run []docs.Command
		for _, c := range page.Commands() {
			if !c.Shown {
				run = append(run, c)
			}
		}
		if len(run) == 0 {
			continue
		}
		It("tells to run what can be run, in "+page.Path, SpecTimeout(3*time.Minute), func(ctx SpecContext) {
			fourNodes(ctx)
			folder := aDesk()
			if !slices.Contains(docs.VerifiedPages, page.Path) {
				appliesItself(ctx, page)
			}
			if first := before[page.Path]; first != "" {
				shell(ctx, first)
			}
			for _, c := range run {
				text := c.Text
				if other, is := docs.RuleFor(c); is && other.Append+other.Instead == "" {
					continue
				} else if is && other.Instead != "" {
					text = other.Instead
				} else if is {
					text += other.Append
				}
				By(fmt.Sprintf("%s:%d: %s", page.Path, c.Line, text))
				shell(ctx, "cd "+folder+" && "+text)
			}
		})
	}
})

// fourNodes are those of the pages' cluster: two in each of two zones.
func fourNodes(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"a-1", "a-2", "b-1", "b-2"} {
		node := fixture.Node(name).Label(v1.LabelTopologyZone, name[:1]).Capacity("cpu", "16", "memory", "64Gi", "pods", "110")
		if name == "b-2" {
			node = node.Label("pool", "shop").Label("example.com/gpu.present", "true")
		}
		aNode(ctx, node)
	}
}

// aDesk is a folder in which a reader of a page sits: the sources, and a workload
// of their own.
func aDesk() string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	Expect(os.Symlink(filepath.Join(moduleRoot(), "config"), filepath.Join(folder, "config"))).To(Succeed())
	deployment := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: mine}, spec: {replicas: 2, selector: {matchLabels: {app: mine}}, " +
		"template: {metadata: {labels: {app: mine}}, spec: {containers: [{name: mine, image: mine}]}}}}"
	Expect(os.WriteFile(filepath.Join(folder, "deployment.yaml"), []byte(deployment), 0o644)).To(Succeed())
	return folder
}

// appliesItself applies what a page shows.
func appliesItself(ctx context.Context, page docs.Page) {
	GinkgoHelper()
	for _, block := range page.Blocks {
		if block.Language != "yaml" || block.Info != "" {
			continue
		}
		text, err := block.Manifests(moduleRoot())
		Expect(err).NotTo(HaveOccurred())
		_, err = cp.Kubectl(ctx, strings.NewReader(text), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), "%s:%d", page.Path, block.Line)
	}
}

// expectOverlay applies, on trial, what an overlay makes of this tree's manifests.
func expectOverlay(ctx context.Context, text string) {
	GinkgoHelper()
	folder := aDesk()
	text = strings.ReplaceAll(text, "github.com/berthdev/berth/config/", "config/")
	Expect(os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o644)).To(Succeed())
	shell(ctx, "kubectl kustomize "+folder+" | kubectl apply --server-side --force-conflicts --dry-run=server -f -")
}
