// Package helm installs the chart charts/berth with the real Helm on a real control
// plane, upgrades it, and rolls it back. `make helm-e2e` runs it; `make test` does not.
package helm

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var program = flag.String("helm", "", "the `path` that tools/build-helm.sh prints; empty: nothing runs")

var (
	cp *controlplane.ControlPlane
	// root is the folder of the module.
	root string
)

func TestTheChart(t *testing.T) {
	if *program == "" {
		t.Skip("make helm-e2e runs it")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "helm")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
}, NodeTimeout(15*time.Minute))

// helm runs Helm with its files in a folder of the suite's own, as the administrator. The
// error holds what it said.
func helm(ctx context.Context, args ...string) (string, error) {
	files := filepath.Join(cp.Dir(), "helm")
	// The last value of a flag counts.
	args = append([]string{args[0], "--namespace=" + operator.Namespace, "--kubeconfig=" + cp.Kubeconfig()}, args[1:]...)
	command := exec.CommandContext(ctx, *program, args...)
	command.Env = append(command.Environ(), "HELM_CACHE_HOME="+files, "HELM_CONFIG_HOME="+files, "HELM_DATA_HOME="+files)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("helm %v: %w: %s%s", args, err, out, said.String())
	}
	return string(out), nil
}

func chart() string { return filepath.Join(root, "charts", "berth") }
