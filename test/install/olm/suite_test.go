// Package olm installs the bundle with the Operator Lifecycle Manager on a control plane
// without containers: opm serves the catalog, and KWOK runs the pods of the Deployment. The
// manager runs as a process, with the permissions that were installed. `make olm-e2e` runs
// it; `make test` does not.
package olm

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var binaries = flag.String("olm", "", "the `folder` that tools/build-olm.sh prints; empty: nothing runs")

const (
	namespace = operator.Namespace
	account   = operator.Account
	// nodes is the number of nodes that the demo needs.
	nodes = 50
	// eventuallyTimeout is the timeout of Eventually: OLM looks for missing objects once a
	// minute.
	eventuallyTimeout = 5 * time.Minute
	pollingInterval   = 200 * time.Millisecond
)

var (
	cp    *controlplane.ControlPlane
	admin client.Client
	root  string // of the operator's module
	work  string // files of this run
)

func TestOLM(t *testing.T) {
	if *binaries == "" {
		t.Skip("make olm-e2e runs it")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "olm")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(eventuallyTimeout)
	SetDefaultEventuallyPollingInterval(pollingInterval)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	work = GinkgoT().TempDir()
	cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true, KWOK: true, Scheduler: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
	admin, err = client.New(cp.Config(), client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.Nodes(ctx, nodes, controlplane.NodeOptions{})).To(Succeed())
	startLifecycleManager(ctx)
}, NodeTimeout(15*time.Minute))

// A process that ended is often the cause of a failure.
var _ = AfterEach(func() {
	if CurrentSpecReport().Failed() {
		AddReportEntry("ended", cp.Running())
		logs, _ := filepath.Glob(filepath.Join(cp.Dir(), "*.log"))
		for _, log := range logs {
			if text, err := os.ReadFile(log); err == nil {
				AddReportEntry(filepath.Base(log), string(text[max(0, len(text)-4000):]))
			}
		}
	}
})

// startLifecycleManager installs OLM's CRDs and runs its two operators.
func startLifecycleManager(ctx context.Context) {
	GinkgoHelper()
	Expect(cp.InstallCRDs(ctx, filepath.Join(*binaries, "crds"))).To(Succeed())
	kubectl(ctx, "create", "namespace", "olm")
	// The olm operator reads only the environment.
	Expect(os.Setenv("KUBECONFIG", cp.Kubeconfig())).To(Succeed())
	_, err := cp.Run(filepath.Join(*binaries, "olm"), "--namespace=olm", "--writeStatusName=", "--writePackageServerStatusName=")
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Run(filepath.Join(*binaries, "catalog"), "--namespace=olm", "--kubeconfig="+cp.Kubeconfig(), "--writeStatusName=")
	Expect(err).NotTo(HaveOccurred())
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cp.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

const channel = "candidate-v0"

// catalog is a catalog with one package, served by opm.
type catalog struct {
	address string
	server  *controlplane.Process
}

// render returns what opm reads of a bundle.
func render(ctx context.Context, bundle string) []byte {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, filepath.Join(*binaries, "opm"), "render", bundle)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), stderr.String())
	return out
}

// serve serves a catalog of these versions, each of which replaces the one before, instead
// of the earlier catalog.
func (c *catalog) serve(ctx context.Context, versions map[string]string, order ...string) {
	GinkgoHelper()
	type entry struct {
		Name     string `json:"name"`
		Replaces string `json:"replaces,omitempty"`
	}
	var entries []entry
	var rendered [][]byte
	for i, version := range order {
		e := entry{Name: "berth.v" + version}
		if i > 0 {
			e.Replaces = "berth.v" + order[i-1]
		}
		entries = append(entries, e)
		rendered = append(rendered, render(ctx, versions[version]))
	}
	head, err := json.Marshal(map[string]any{"schema": "olm.package", "name": "berth", "defaultChannel": channel})
	Expect(err).NotTo(HaveOccurred())
	body, err := json.Marshal(map[string]any{"schema": "olm.channel", "package": "berth", "name": channel, "entries": entries})
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(work, "catalog-"+strings.Join(order, "-"))
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	text := bytes.Join(append([][]byte{head, body}, rendered...), []byte("\n"))
	Expect(os.WriteFile(filepath.Join(dir, "catalog.json"), text, 0o644)).To(Succeed())

	output, err := exec.CommandContext(ctx, filepath.Join(*binaries, "opm"), "validate", dir).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	Expect(string(output)).To(BeEmpty(), "opm validate")
	c.run(ctx, dir)
}

// run serves a folder, always at the address that the CatalogSource names.
func (c *catalog) run(ctx context.Context, dir string) {
	GinkgoHelper()
	if c.server != nil {
		cp.End(c.server)
	} else {
		addresses, err := controlplane.FreeAddresses(1)
		Expect(err).NotTo(HaveOccurred())
		c.address = addresses[0]
	}
	_, port, err := net.SplitHostPort(c.address)
	Expect(err).NotTo(HaveOccurred())
	c.server, err = cp.Run(filepath.Join(*binaries, "opm"), "serve", dir, "--port="+port, "--pprof-addr=",
		"--cache-dir="+dir+"-cache", "--cache-enforce-integrity=false", "--termination-log="+dir+"-ended")
	Expect(err).NotTo(HaveOccurred())
	Expect(c.server.Until(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})).To(Succeed())
}

// buildBundle builds the bundle of this tree with another version.
func buildBundle(ctx context.Context, version string) string {
	GinkgoHelper()
	out := filepath.Join(work, "v"+version)
	cmd := exec.CommandContext(ctx, "go", "run", ".", "--out="+out, "--version="+version)
	cmd.Dir = filepath.Join(root, "tools", "bundle")
	output, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return filepath.Join(out, "bundle")
}
