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

// older is the version that is installed first: this tree's, made by the test.
const older = "0.0.9"

// workload is a profile, pods that it can place, and, once there are more than the
// nodes have room for, pods that wait.
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
		// What a plugin of somebody's own may do: part of the aggregated role.
		kubectl(ctx, "create", "clusterrole", "ships", "--verb=list", "--resource=pods")
		kubectl(ctx, "patch", "clusterrole", "ships", "--type=merge", "--patch",
			`{"metadata":{"labels":{"rbac.berth.dev/aggregate-to-plugins":"true"}},"rules":[{"apiGroups":["example.com"],"resources":["ships"],"verbs":["list"]}]}`)
	}, NodeTimeout(15*time.Minute))

	It("may be installed by the account that OLM v1 gets", func(ctx SpecContext) {
		for _, o := range objects(filepath.Join(root, "config", "olm", "clusterextension.yaml")) {
			if o.GroupVersionKind().Group != "olm.operatorframework.io" {
				Expect(admin.Create(ctx, o)).To(Succeed())
			}
		}
		Eventually(installersWrongRights).WithContext(ctx).Should(BeEmpty())
		files, err := filepath.Glob(filepath.Join(root, "bundle", "manifests", "*.yaml"))
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			if !strings.Contains(file, "clusterserviceversion") {
				kubectl(ctx, "create", "--dry-run=server", "--namespace="+namespace, installer, "--filename="+file)
			}
		}
	}, NodeTimeout(patience))

	It("is installed by a Subscription", func(ctx SpecContext) {
		served.serve(ctx, map[string]string{older: bundleOf(ctx, older)}, older)
		for _, o := range objects(filepath.Join(root, "config", "olm", "subscription.yaml")) {
			switch o.GetKind() {
			case "Namespace": // is there
			case "CatalogSource":
				Expect(unstructured.SetNestedMap(o.Object, map[string]any{"sourceType": "grpc", "address": served.address}, "spec")).To(Succeed())
				fallthrough
			default:
				Expect(admin.Create(ctx, o)).To(Succeed())
			}
		}
		untilSucceeded(ctx, older)
		untilDeployed(ctx, older)
		Eventually(managersWrongRights).WithContext(ctx).Should(BeEmpty())
	}, NodeTimeout(2*patience))

	It("schedules under the account that was installed", func(ctx SpecContext) {
		berth = runManager(ctx, path)
		kubectlStdin(ctx, workload, "apply", "--filename=-")
		Eventually(bound).WithContext(ctx).Should(Equal(60))
	}, NodeTimeout(patience))

	It("is upgraded, and no profile and no pod is lost", func(ctx SpecContext) {
		// More than there is room for: some wait, and go on waiting.
		kubectl(ctx, "scale", "deployment", "web", "--replicas=250")
		Eventually(bound).WithContext(ctx).Should(BeNumerically(">", 60))
		before, err := placed(ctx)
		Expect(err).NotTo(HaveOccurred())
		profile, err := object(ctx, profileKind, "", "kept")
		Expect(err).NotTo(HaveOccurred())

		served.serve(ctx, map[string]string{older: filepath.Join(work, "v"+older, "bundle"), current: filepath.Join(root, "bundle")}, older, current)
		untilSucceeded(ctx, current)
		untilDeployed(ctx, current)
		Eventually(func() bool {
			_, err := object(ctx, csvKind, namespace, "berth.v"+older)
			return apierrors.IsNotFound(err)
		}).Should(BeTrue(), "the older version is gone")
		// OLM deletes the older version's roles when the newer one has succeeded, be its
		// last roles made or not; and what is gathered from other roles is gathered anew.
		Eventually(managersWrongRights).WithContext(ctx).Should(BeEmpty())

		// The manager of the new version takes over, as in the Deployment.
		cp.End(berth)
		berth = runManager(ctx, path)
		kubectl(ctx, "scale", "deployment", "web", "--replicas=300")
		kubectl(ctx, "wait", "--for=condition=Ready", "sprof/kept", "--timeout=60s")
		now, err := object(ctx, profileKind, "", "kept")
		Expect(err).NotTo(HaveOccurred())
		Expect(now.GetUID()).To(Equal(profile.GetUID()))
		Expect(now.Object["spec"]).To(Equal(profile.Object["spec"]))
		Eventually(func() string {
			has, err := room(ctx)
			is, boundErr := bound(ctx)
			return fmt.Sprint(has-is, " places are left ", err, boundErr)
		}).Should(Equal("0 places are left <nil> <nil>"))
		after, err := placed(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(HaveLen(300))
		for uid, node := range before {
			Expect(after).To(HaveKey(uid))
			if node != "" {
				Expect(after[uid]).To(Equal(node))
			}
		}
	}, NodeTimeout(2*patience))

	It("passes the demo", func(ctx SpecContext) {
		kubectl(ctx, "delete", "deployment", "web", "--cascade=foreground")
		kubectl(ctx, "delete", "sprof", "--all")
		Eventually(placed).WithContext(ctx).Should(BeEmpty())
		cp.End(berth)
		demo := exec.CommandContext(ctx, "go", "run", "./demo", "--on="+cp.Dir())
		demo.Dir = root
		said, err := demo.CombinedOutput()
		GinkgoWriter.Print(string(said))
		Expect(err).NotTo(HaveOccurred(), string(said))
		Expect(string(said)).To(HaveSuffix("demo: ok\n"))
	}, NodeTimeout(2*patience))
})

// installer has kubectl ask in the name of the account that OLM v1 installs under.
const installer = "--as=system:serviceaccount:" + namespace + ":berth-installer"

func kubectlStdin(ctx context.Context, stdin string, args ...string) {
	GinkgoHelper()
	_, err := cp.Kubectl(ctx, strings.NewReader(stdin), args...)
	Expect(err).NotTo(HaveOccurred())
}

func untilSucceeded(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func() string {
		csv, err := object(ctx, csvKind, namespace, "berth.v"+version)
		if err != nil {
			return err.Error()
		}
		phase, _, _ := unstructured.NestedString(csv.Object, "status", "phase")
		message, _, _ := unstructured.NestedString(csv.Object, "status", "message")
		return phase + ": " + message
	}).WithContext(ctx).Should(HavePrefix("Succeeded: "))
}

// untilDeployed waits until KWOK carries every pod of the version's Deployment.
func untilDeployed(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func() (string, error) {
		d, err := object(ctx, deploymentKind, namespace, account)
		if err != nil {
			return "", err
		}
		ready, _, _ := unstructured.NestedInt64(d.Object, "status", "readyReplicas")
		containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		return fmt.Sprintf("%d of %v", ready, containers[0].(map[string]any)["image"]), nil
	}).WithContext(ctx).Should(Equal("2 of berth:v" + version))
}

// objects reads every object of a file.
func objects(file string) (all []*unstructured.Unstructured) {
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
