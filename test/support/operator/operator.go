// Package operator runs Berth as in a cluster, but without a container: it installs
// config/default, and runs the manager with the permissions of its ServiceAccount.
package operator

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/controlplane"
)

const (
	// Namespace is that of config/default.
	Namespace = "berth-system"
	// Account is the manager's ServiceAccount.
	Account = "berth-manager"
	// Lease is the name of the leaders' Lease in Namespace.
	Lease = "berth-manager"
)

// Build builds bin/manager and returns its path.
func Build(ctx context.Context) (string, error) {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "manager")
	build := exec.CommandContext(ctx, "go", "build", "-tags=grpcnotrace", "-buildvcs=false", "-o", path, ".")
	build.Dir, build.Stdout, build.Stderr = root, os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building the manager: %w", err)
	}
	return path, nil
}

// Install applies config/default, and waits until its kinds are served.
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

// Manager is a running manager.
type Manager struct {
	*controlplane.Process
	// Probes, Metrics and Profiles are the addresses of /readyz, /metrics and
	// /debug/pprof.
	Probes, Metrics, Profiles string
}

// Start starts the manager at path under its ServiceAccount, with additional flags, and does
// not wait for it. Install must have been called.
func Start(ctx context.Context, cp *controlplane.ControlPlane, path string, flags ...string) (*Manager, error) {
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, Namespace, Account)
	if err != nil {
		return nil, err
	}
	return StartWith(cp, path, kubeconfig, flags...)
}

// StartWith is Start with another kubeconfig, which may point to another address than that of
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

// Ready is nil once /readyz returns 200.
func (m *Manager) Ready(ctx context.Context) error {
	response, err := get(ctx, "http://"+m.Probes+"/readyz")
	if err == nil {
		response.Close()
	}
	return err
}

// CPUProfile writes a CPU profile of the next seconds to path.
func (m *Manager) CPUProfile(ctx context.Context, seconds int, path string) error {
	return m.profile(ctx, fmt.Sprintf("profile?seconds=%d", seconds), path)
}

// AllocsProfile writes a profile of all allocations so far to path.
func (m *Manager) AllocsProfile(ctx context.Context, path string) error {
	return m.profile(ctx, "allocs", path)
}

// Allocations returns the number and the bytes of all allocations so far.
func (m *Manager) Allocations(ctx context.Context) (objects, bytes float64, err error) {
	response, err := get(ctx, "http://"+m.Profiles+"/debug/pprof/allocs?debug=1")
	if err != nil {
		return 0, 0, err
	}
	defer response.Close()
	lines := bufio.NewScanner(response)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for prefix, value := range map[string]*float64{"# Mallocs = ": &objects, "# TotalAlloc = ": &bytes} {
			if text, is := strings.CutPrefix(lines.Text(), prefix); is {
				if *value, err = strconv.ParseFloat(text, 64); err != nil {
					return 0, 0, err
				}
			}
		}
	}
	if err := lines.Err(); err != nil || objects == 0 {
		return 0, 0, errors.Join(err, errors.New("/debug/pprof/allocs has no number of allocations"))
	}
	return objects, bytes, nil
}

// profile writes a profile of /debug/pprof to path.
func (m *Manager) profile(ctx context.Context, name, path string) error {
	response, err := get(ctx, "http://"+m.Profiles+"/debug/pprof/"+name)
	if err != nil {
		return err
	}
	defer response.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := file.ReadFrom(response); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// get returns the body of a response with status 200, which the caller closes.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	response, err := send(ctx, url)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return response.Body, nil
}

// Get returns the status and body of a GET, whatever they are, as in "200 ok".
func Get(ctx context.Context, url string) (string, error) {
	response, err := send(ctx, url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, text), err
}

func send(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// AccountWith creates a ServiceAccount in the namespace default and returns a token of it.
// role is its ClusterRole; empty for none.
func AccountWith(ctx context.Context, cp *controlplane.ControlPlane, name, role string) (token string, err error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := cp.Client().CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("making the account %s: %w", name, err)
	}
	if role != "" {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
		}
		if _, err := cp.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("binding %s to %s: %w", name, role, err)
		}
	}
	config, err := cp.ServiceAccountConfig(ctx, "default", name)
	if err != nil {
		return "", err
	}
	return config.BearerToken, nil
}

// ScrapeRole is the ClusterRole that permits scrapes.
const ScrapeRole = "berth-metrics-reader-role"

// Scrape reads the manager's metrics with a token; without one when it is empty. It does not
// verify the certificate.
func (m *Manager) Scrape(ctx context.Context, token string) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.Metrics+"/metrics", nil)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}
