package olm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	csvKind        = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}
	deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	profileKind    = schema.GroupVersionKind{Group: "berth.dev", Version: "v1alpha1", Kind: "SchedulingProfile"}
)

// oldVersion is the version that is installed first, built from this tree.
const oldVersion = "0.0.9"

// workload is a profile and a Deployment, which has more pods than the nodes take once it
// is scaled up.
const workload = `
apiVersion: berth.dev/v1alpha1
kind: SchedulingProfile
metadata: {name: kept}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 60
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: kept
      containers:
      - {name: app, image: none, resources: {requests: {cpu: "1"}}}
`

var _ = Describe("Berth through the Operator Lifecycle Manager", Ordered, func() {
	var (
		served  catalog
		current string // the version of this tree
		path    string // of the manager
		berth   *controlplane.Process
	)

	BeforeAll(func(ctx SpecContext) {
		text, err := os.ReadFile(filepath.Join(root, "VERSION"))
		Expect(err).NotTo(HaveOccurred())
		current = strings.TrimSpace(string(text))
		path, err = operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		// A permission of an out-of-tree plugin, which the aggregated role includes.
		kubectl(ctx, "create", "clusterrole", "ships", "--verb=list", "--resource=pods")
		kubectl(ctx, "patch", "clusterrole", "ships", "--type=merge", "--patch",
			`{"metadata":{"labels":{"rbac.berth.dev/aggregate-to-plugins":"true"}},"rules":[{"apiGroups":["example.com"],"resources":["ships"],"verbs":["list"]}]}`)
	}, NodeTimeout(15*time.Minute))

	It("can be installed by OLM v1's account", func(ctx SpecContext) {
		for _, o := range readObjects(filepath.Join(root, "config", "olm", "clusterextension.yaml")) {
			if o.GroupVersionKind().Group != "olm.operatorframework.io" {
				Expect(admin.Create(ctx, o)).To(Succeed())
			}
		}
		Eventually(wrongInstallerPermissions).WithContext(ctx).Should(BeEmpty())
		files, err := filepath.Glob(filepath.Join(root, "bundle", "manifests", "*.yaml"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			if !strings.Contains(file, "clusterserviceversion") {
				kubectl(ctx, "create", "--dry-run=server", "--namespace="+namespace, installer, "--filename="+file)
			}
		}
	}, NodeTimeout(eventuallyTimeout))

	It("is installed by a Subscription", func(ctx SpecContext) {
		served.serve(ctx, map[string]string{oldVersion: buildBundle(ctx, oldVersion)}, oldVersion)
		for _, o := range readObjects(filepath.Join(root, "config", "olm", "subscription.yaml")) {
			switch o.GetKind() {
			case "Namespace": // exists
			case "CatalogSource":
				Expect(unstructured.SetNestedMap(o.Object, map[string]any{"sourceType": "grpc", "address": served.address}, "spec")).To(Succeed())
				fallthrough
			default:
				Expect(admin.Create(ctx, o)).To(Succeed())
			}
		}
		untilSucceeded(ctx, oldVersion)
		untilDeployed(ctx, oldVersion)
		Eventually(wrongManagerPermissions).WithContext(ctx).Should(BeEmpty())
	}, NodeTimeout(2*eventuallyTimeout))

	It("schedules with the installed account", func(ctx SpecContext) {
		berth = runManager(ctx, path)
		kubectlStdin(ctx, workload, "apply", "--filename=-")
		Eventually(boundCount).WithContext(ctx).Should(Equal(60))
	}, NodeTimeout(eventuallyTimeout))

	It("is upgraded without losing a profile or a pod", func(ctx SpecContext) {
		// More than the nodes take: some pods stay pending.
		kubectl(ctx, "scale", "deployment", "web", "--replicas=250")
		Eventually(boundCount).WithContext(ctx).Should(BeNumerically(">", 60))
		before, err := podNodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		profile, err := getObject(ctx, profileKind, "", "kept")
		Expect(err).NotTo(HaveOccurred())

		served.serve(ctx, map[string]string{oldVersion: filepath.Join(work, "v"+oldVersion, "bundle"), current: filepath.Join(root, "bundle")}, oldVersion, current)
		untilSucceeded(ctx, current)
		untilDeployed(ctx, current)
		Eventually(func() bool {
			_, err := getObject(ctx, csvKind, namespace, "berth.v"+oldVersion)
			return apierrors.IsNotFound(err)
		}).Should(BeTrue(), "the old version is deleted")
		// OLM deletes the old version's roles when the new one has succeeded, which may be
		// before its last roles exist; and the aggregated role is computed again.
		Eventually(wrongManagerPermissions).WithContext(ctx).Should(BeEmpty())

		// The manager of the new version takes over, as in the Deployment.
		cp.End(berth)
		berth = runManager(ctx, path)
		kubectl(ctx, "scale", "deployment", "web", "--replicas=300")
		kubectl(ctx, "wait", "--for=condition=Ready", "sprof/kept", "--timeout=60s")
		now, err := getObject(ctx, profileKind, "", "kept")
		Expect(err).NotTo(HaveOccurred())
		Expect(now.GetUID()).To(Equal(profile.GetUID()))
		Expect(now.Object["spec"]).To(Equal(profile.Object["spec"]))
		Eventually(func() string {
			has, err := freeCPUs(ctx)
			is, boundErr := boundCount(ctx)
			return fmt.Sprint(has-is, " CPUs are free ", err, boundErr)
		}).Should(Equal("0 CPUs are free <nil> <nil>"))
		Eventually(podNodes).WithContext(ctx).Should(HaveLen(300))
		after, err := podNodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		for uid, node := range before {
			Expect(after).To(HaveKey(uid))
			if node != "" {
				Expect(after[uid]).To(Equal(node))
			}
		}
	}, NodeTimeout(2*eventuallyTimeout))

	It("passes the demo", func(ctx SpecContext) {
		kubectl(ctx, "delete", "deployment", "web", "--cascade=foreground")
		kubectl(ctx, "delete", "sprof", "--all")
		Eventually(podNodes).WithContext(ctx).Should(BeEmpty())
		cp.End(berth)
		demo := exec.CommandContext(ctx, "go", "run", "./demo", "--on="+cp.Dir())
		demo.Dir = root
		said, err := demo.CombinedOutput()
		GinkgoWriter.Print(string(said))
		Expect(err).NotTo(HaveOccurred(), string(said))
		Expect(string(said)).To(HaveSuffix("demo: ok\n"))
	}, NodeTimeout(2*eventuallyTimeout))
})

// installer makes kubectl impersonate the account with which OLM v1 installs.
const installer = "--as=system:serviceaccount:" + namespace + ":berth-installer"

func kubectlStdin(ctx context.Context, stdin string, args ...string) {
	GinkgoHelper()
	_, err := cp.Kubectl(ctx, strings.NewReader(stdin), args...)
	Expect(err).NotTo(HaveOccurred())
}

func untilSucceeded(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func() string {
		csv, err := getObject(ctx, csvKind, namespace, "berth.v"+version)
		if err != nil {
			return err.Error()
		}
		phase, _, _ := unstructured.NestedString(csv.Object, "status", "phase")
		message, _, _ := unstructured.NestedString(csv.Object, "status", "message")
		return phase + ": " + message
	}).WithContext(ctx).Should(HavePrefix("Succeeded: "))
}

// untilDeployed waits until KWOK runs every pod of the version's Deployment.
func untilDeployed(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func() (string, error) {
		d, err := getObject(ctx, deploymentKind, namespace, account)
		if err != nil {
			return "", err
		}
		ready, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas")
		containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		return fmt.Sprintf("%d of %v", ready, containers[0].(map[string]any)["image"]), nil
	}).WithContext(ctx).Should(Equal("2 of berth:v" + version))
}

// readObjects returns all objects of a file.
func readObjects(file string) (all []*unstructured.Unstructured) {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); err == io.EOF {
			return all
		} else if err != nil {
			Fail(err.Error())
		}
		all = append(all, o)
	}
}
