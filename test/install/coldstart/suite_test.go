// Package coldstart starts Berth as the only scheduler of a cluster in which
// there is nothing yet: no kinds of its own, no node that takes pods.
package coldstart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	cp   *controlplane.ControlPlane
	root string
	// manager is what the suite built.
	manager string
	// asked is what the API server notes of its requests.
	asked audit.Log
)

func TestColdStart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "cold start")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	var rules []string
	asked, rules, err = audit.New(GinkgoT().TempDir(), audit.User("system:serviceaccount:"+operator.Namespace+":"+operator.Account))
	Expect(err).NotTo(HaveOccurred())
	// Whether nodes are ready, the specs say.
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: append(rules, "--disable-admission-plugins=ServiceAccount")})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
}, NodeTimeout(15*time.Minute))

// staticPod is what the kubelet would be given.
func staticPod() v1.Pod {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "config", "static-pod", "berth.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var pod v1.Pod
	Expect(yaml.UnmarshalStrict(text, &pod)).To(Succeed())
	return pod
}

// with returns arguments of which some have other values; each must be there.
func with(args []string, values map[string]string) []string {
	GinkgoHelper()
	args = slices.Clone(args)
	for flag, value := range values {
		i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
		Expect(i).NotTo(Equal(-1), "the static pod has no %s", flag)
		args[i] = flag + "=" + value
	}
	return args
}
