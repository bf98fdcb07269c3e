// Package operator runs Berth as a cluster would, but for the container: what
// config/default installs, and the manager as a process that has the rights of
// its ServiceAccount and no others.
package operator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/berthdev/berth/test/support/controlplane"
)

const (
	// Namespace is where config/default puts the operator.
	Namespace = "berth-system"
	// Account is the manager's ServiceAccount.
	Account = "berth-manager"
	// Lease is the one that leaders hold, in Namespace.
	Lease = "berth-manager"
)

// Build builds bin/manager and returns its path.
func Build(ctx context.Context) (string, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "manager")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, ".")
	build.Dir, build.Stdout, build.Stderr = root, os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building the manager: %w", err)
	}
	return path, nil
}

// Install applies what config/default holds, and waits until its kinds are
// served.
func Install(ctx context.Context, cp *controlplane.ControlPlane) error {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return err
	}
	if err := cp.InstallCRDs(ctx, filepath.Join(root, "config", "crd")); err != nil {
		return fmt.Errorf("installing the kinds: %w", err)
	}
	_, err = cp.Kubectl(ctx, nil, "apply", "--server-side", "--kustomize", filepath.Join(root, "test", "support", "operator", "install"))
	if err != nil {
		return fmt.Errorf("installing the operator: %w", err)
	}
	return nil
}

// Manager is a manager that runs.
type Manager struct {
	*controlplane.Process
	// Probes, Metrics and Profiles are the addresses of /readyz, /metrics and
	// /debug/pprof.
	Probes, Metrics, Profiles string
}

// Start starts the manager at path under its ServiceAccount, with more flags,
// and does not wait for it. Install must have been called.
func Start(ctx context.Context, cp *controlplane.ControlPlane, path string, flags ...string) (*Manager, error) {
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, Namespace, Account)
	if err != nil {
		return nil, err
	}
	return StartWith(cp, path, kubeconfig, flags...)
}

// StartWith is Start for a kubeconfig of its own, which may lead elsewhere than to
// the control plane's first API server.
func StartWith(cp *controlplane.ControlPlane, path, kubeconfig string, flags ...string) (*Manager, error) {
	free, err := controlplane.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	m := &Manager{Probes: free[0], Metrics: free[1], Profiles: free[2]}
	m.Process, err = cp.Run(path, append([]string{
		"--kubeconfig=" + kubeconfig,
		"--namespace=" + Namespace,
		"--health-probe-bind-address=" + m.Probes,
		"--metrics-bind-address=" + m.Metrics,
		"--pprof-bind-address=" + m.Profiles,
	}, flags...)...)
	return m, err
}

// Ready is nil once the manager says that it is.
func (m *Manager) Ready(ctx context.Context) error {
	answer, err := get(ctx, "http://"+m.Probes+"/readyz")
	if err == nil {
		answer.Close()
	}
	return err
}

// CPUProfile writes what the manager's CPU does during the next seconds to
// path, for go tool pprof.
func (m *Manager) CPUProfile(ctx context.Context, seconds int, path string) error {
	answer, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", m.Profiles, seconds))
	if err != nil {
		return err
	}
	defer answer.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := file.ReadFrom(answer); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
