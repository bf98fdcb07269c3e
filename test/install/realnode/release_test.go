package realnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("a release", Ordered, Label("release"), func() {
	BeforeAll(func() {
		if *release == "" {
			Skip("RELEASE=bin/release make real-node runs it")
		}
	})
	startCluster("release", node.Options{KubeScheduler: true})
	var plugin, version string
	BeforeAll(func(ctx SpecContext) {
		plugin, version = unpackPlugin(ctx)
		_, err := runHelm(ctx, "install", "berth", releaseFile("berth-[0-9]*.tgz"), "--create-namespace")
		Expect(err).NotTo(HaveOccurred())
		expectReady(ctx, 2)
	}, startTimeout)

	It("runs the manager of its image, as its chart installs it", specTimeout, func(ctx SpecContext) {
		pod := leader(ctx, Default, operator.Namespace)
		expectConfined(process(pod))
		Expect(pod.Spec.Containers[0].Image).To(Equal(node.SnapshotImage))
		Expect(managerLogs()).To(HaveEach(ContainSubstring(fmt.Sprintf("%q:%q", "version", version))))
	})

	It("has a kubectl plugin of the same version, which finds the cluster ready", specTimeout, func(ctx SpecContext) {
		var versions struct {
			Plugin string
			Berth  []struct{ Image, Deployment string }
		}
		Expect(json.Unmarshal(runPlugin(ctx, plugin, "version", "-o", "json"), &versions)).To(Succeed())
		Expect(versions.Plugin).To(Equal(version))
		Expect(versions.Berth).To(ConsistOf(SatisfyAll(HaveField("Image", node.SnapshotImage), HaveField("Deployment", operator.Namespace+"/"+deployment))))
		runPlugin(ctx, plugin, "check") // fails for what is wrong
	})

	It("runs a pod, and its plugin says on which node, and why another one is pending", specTimeout, func(ctx SpecContext) {
		fits, large := webPod(metav1.NamespaceDefault, "fits"), webPod(metav1.NamespaceDefault, "large")
		large.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1000")
		create(ctx, fits)
		create(ctx, large)
		Eventually(ready).WithArguments(ctx, fits).Should(BeTrue())
		Expect(string(runPlugin(ctx, plugin, "explain", "pod/fits"))).To(ContainSubstring("default/fits: bound to node " + node.Name))
		Eventually(func() string { return string(runPlugin(ctx, plugin, "explain", "pod/large")) }).WithContext(ctx).
			Should(SatisfyAll(ContainSubstring("default/large: Pending"), ContainSubstring("Insufficient cpu")))
	})

	It("is uninstalled by Helm, and leaves the pods that it bound running", specTimeout, func(ctx SpecContext) {
		pod := webPod(metav1.NamespaceDefault, "stays")
		create(ctx, pod)
		Eventually(ready).WithArguments(ctx, pod).Should(BeTrue())
		_, err := runHelm(ctx, "uninstall", "berth", "--wait")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) { g.Expect(managers(ctx, g)).To(BeEmpty()) }).WithContext(ctx).Should(Succeed())
		Expect(ready(ctx, pod)).To(BeTrue())
	})
})

// releaseFile returns the path of the only file of the release with a name of the pattern.
func releaseFile(pattern string) string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(*release, pattern))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(1), pattern)
	return files[0]
}

var pluginArchive = regexp.MustCompile(`^kubectl-berth_(v.+)_linux_[a-z0-9]+\.tar\.gz$`)

// unpackPlugin unpacks the archive of the plugin for this machine, and returns the folder of the
// plugin and its version.
func unpackPlugin(ctx context.Context) (folder, version string) {
	GinkgoHelper()
	archive := releaseFile("kubectl-berth_*_linux_" + runtime.GOARCH + ".tar.gz")
	parts := pluginArchive.FindStringSubmatch(filepath.Base(archive))
	Expect(parts).To(HaveLen(2), archive)
	folder = filepath.Join(cluster.Dir(), "plugin")
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	text, err := exec.CommandContext(ctx, "tar", "-C", folder, "-xzf", archive).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(text))
	return folder, parts[1]
}

// runPlugin runs `kubectl berth` with the plugin in a folder, and returns what it prints.
func runPlugin(ctx context.Context, folder string, args ...string) []byte {
	GinkgoHelper()
	kubectl, err := cluster.Tool("kubectl")
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, kubectl, append([]string{"berth"}, args...)...)
	command.Env = append(os.Environ(), "PATH="+folder, "KUBECONFIG="+cluster.Kubeconfig(), "HOME="+folder)
	out, err := run(command)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("kubectl berth %v:\n%s", args, out)
	return out
}

// runHelm runs Helm as the administrator, with its files in the cluster's folder.
func runHelm(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, *helm, append(args, "--namespace="+operator.Namespace, "--kubeconfig="+cluster.Kubeconfig())...)
	files := filepath.Join(cluster.Dir(), "helm")
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+files, "HELM_CONFIG_HOME="+files, "HELM_DATA_HOME="+files)
	return run(command)
}

// run returns the output of a command. The error has all that it prints.
func run(command *exec.Cmd) ([]byte, error) {
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("%v: %w: %s%s", command.Args, err, out, errs.String())
	}
	return out, nil
}
