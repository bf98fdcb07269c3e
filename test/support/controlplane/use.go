package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// tokenSeconds is how long a service account's token is good: longer than any
// run against a control plane of this package.
const tokenSeconds = 24 * 60 * 60

// Kubectl runs kubectl as the administrator and returns its standard output.
// stdin may be nil. A failure's error holds what kubectl said.
func (cp *ControlPlane) Kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	path, err := cp.binaries.Path("kubectl")
	if err != nil {
		return "", err
	}
	// A discovery cache of its own: ports come again, for other clusters.
	flags := []string{"--kubeconfig=" + cp.Kubeconfig(), "--cache-dir=" + filepath.Join(cp.dir, "kubectl")}
	cmd := exec.CommandContext(ctx, path, append(flags, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// InstallCRDs applies the CustomResourceDefinitions in dir, through its
// kustomization.yaml where there is one, and waits until they are served.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, dir string) error {
	how := "--filename=" + dir
	if _, err := os.Stat(filepath.Join(dir, "kustomization.yaml")); err == nil {
		how = "--kustomize=" + dir
	}
	names, err := cp.Kubectl(ctx, nil, "apply", "--server-side", "--output=name", how)
	if err != nil {
		return err
	}
	// By name: kubectl wait does not know kustomizations.
	wait := append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, strings.Fields(names)...)
	_, err = cp.Kubectl(ctx, nil, wait...)
	return err
}

// ServiceAccountConfig returns the configuration of a client that has the
// rights of one service account and no others, by a token that is good for a
// day. The account must exist.
func (cp *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))},
	}
	answer, err := cp.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	cfg := cp.Config()
	cfg.BearerToken = answer.Status.Token
	return cfg, nil
}

// ServiceAccountKubeconfig is ServiceAccountConfig as the path of a kubeconfig
// file, for a child process.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	cfg, err := cp.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	return cp.WriteKubeconfig(namespace+"."+name, cfg)
}

// WriteKubeconfig writes cfg, which must carry its CA and its token as values, as
// a kubeconfig file of that name, and returns its path.
func (cp *ControlPlane) WriteKubeconfig(name string, cfg *rest.Config) (string, error) {
	path := filepath.Join(cp.dir, name+".kubeconfig")
	return path, writeKubeconfig(path, cfg)
}

// Tool returns the path of one of the control plane's binaries, such as kubectl.
func (cp *ControlPlane) Tool(name string) (string, error) { return cp.binaries.Path(name) }
