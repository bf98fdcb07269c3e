//go:build schedulerplugins

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

const (
	eventuallyTimeout = 30 * time.Second
	minutes           = SpecTimeout(2 * time.Minute)
)

func TestMain(m *testing.M) {
	operator.Main(m, main)
}

func TestSchedulerPlugins(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "scheduler-plugins")
}

var (
	cp      *controlplane.ControlPlane
	admin   apitest.API
	manager *operator.Manager
	// moduleFolder is the folder of the module sigs.k8s.io/scheduler-plugins as it was
	// published, with a trailing slash.
	moduleFolder string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	folder, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins").Output()
	Expect(err).NotTo(HaveOccurred())
	moduleFolder = strings.TrimSpace(string(folder)) + "/"
	cp, err = operator.ClusterForPlugins(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin.Client, err = client.New(cp.Config(), client.Options{Scheme: operator.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	for _, crd := range []string{
		"coscheduling/crd.yaml", "capacityscheduling/crd.yaml", "noderesourcetopology/crd.yaml",
		"appgroup/crd.yaml", "networktopology/crd.yaml", "crds/security-profiles-operator.x-k8s.io_seccompprofiles.yaml",
	} {
		Expect(cp.InstallCRDs(ctx, moduleFolder+"manifests/"+crd)).To(Succeed(), crd)
	}
	_, err = cp.Kubectl(ctx, nil, "apply", "--server-side", "-f", "testdata/rights.yaml")
	Expect(err).NotTo(HaveOccurred())

	manager, err = operator.StartSelf(ctx, cp, "--default-profile=", "--leader-elect-retry-period=200ms", "--v=5")
	Expect(err).NotTo(HaveOccurred())
	Expect(manager.Until(ctx, manager.Ready)).To(Succeed())
}, NodeTimeout(15*time.Minute))

// After a failed spec, print the pods and the log of the manager.
var _ = AfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		var pods v1.PodList
		_ = admin.List(ctx, &pods)
		for _, p := range pods.Items {
			GinkgoWriter.Println(p.Name, p.Spec.NodeName, p.Status.Conditions)
		}
		text, _ := os.ReadFile(manager.Log())
		GinkgoWriter.Println(string(text))
	}
})

// kubectlApply applies manifests, and deletes them when the spec ends.
func kubectlApply(ctx context.Context, manifests string) {
	GinkgoHelper()
	_, err := cp.Kubectl(ctx, strings.NewReader(manifests), "apply", "--server-side", "--force-conflicts", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_, err := cp.Kubectl(ctx, strings.NewReader(manifests), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
		Expect(err).NotTo(HaveOccurred())
	})
}

// applyProfile applies a profile with this spec in YAML, indented by two spaces, and
// waits until it is programmed.
func applyProfile(ctx context.Context, name, spec string) {
	GinkgoHelper()
	kubectlApply(ctx, fmt.Sprintf("apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: %s}\nspec:\n%s", name, spec))
	_, err := operator.UntilProgrammed(ctx, cp, name)
	Expect(err).NotTo(HaveOccurred())
}

// conditionMessage returns the status, reason and message of a profile's condition.
func conditionMessage(ctx context.Context, profile, kind string) func(Gomega) string {
	return func(g Gomega) string {
		p := &v1alpha1.SchedulingProfile{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Name: profile}, p)).To(Succeed())
		for _, c := range p.Status.Conditions {
			if c.Type == kind {
				return string(c.Status) + " " + c.Reason + ": " + c.Message
			}
		}
		return ""
	}
}

// createNode creates a node.
func createNode(ctx context.Context, b *fixture.NodeBuilder) {
	GinkgoHelper()
	apitest.Created(ctx, admin, b.Obj())
}

// setGuaranteed sets the limits of a pod to its requests.
func setGuaranteed(pod *v1.Pod) {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Resources.Limits = pod.Spec.Containers[i].Resources.Requests
	}
}

// podOfClass starts a pod of a PriorityClass that requests all CPU of a node.
func podOfClass(name, class string) *fixture.PodBuilder {
	return fixture.Pod("default/"+name).Bare().SchedulerName("toleration").Requests("cpu", "1").
		Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = class })
}

// withCPULimit sets the CPU limit of a pod's first container.
func withCPULimit(cpu string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
}
