package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// tokenSeconds is the lifetime of a service account's token: longer than any run against a
// control plane of this package.
const tokenSeconds = 24 * 60 * 60

// Kubectl runs kubectl as the administrator and returns its standard output. stdin may be nil.
// The error has what kubectl wrote to stderr.
func (cp *ControlPlane) Kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	path, err := cp.binaries.Path("kubectl")
	if err != nil {
		return "", err
	}
	// A discovery cache of its own, since ports are used again for other clusters.
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
	// By name: kubectl wait has no --kustomize.
	wait := append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, strings.Fields(names)...)
	_, err = cp.Kubectl(ctx, nil, wait...)
	return err
}

// ServiceAccountConfig returns a client configuration with the permissions of one service
// account, with a token that is valid for a day. The account must exist.
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

// ServiceAccountKubeconfig is ServiceAccountConfig as the path of a kubeconfig file, for a
// child process.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	cfg, err := cp.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	return cp.WriteKubeconfig(namespace+"."+name, cfg)
}

// WriteKubeconfig writes cfg, which must have its CA and token as values, as a kubeconfig file
// of that name, and returns its path.
func (cp *ControlPlane) WriteKubeconfig(name string, cfg *rest.Config) (string, error) {
	path := filepath.Join(cp.dir, name+".kubeconfig")
	return path, writeKubeconfig(path, cfg)
}

// Tool returns the path of one of the control plane's binaries, such as kubectl.
func (cp *ControlPlane) Tool(name string) (string, error) { return cp.binaries.Path(name) }

// Attach returns the control plane that another program started in the folder dir and keeps
// running. Stop ends only the processes that were started here.
func Attach(ctx context.Context, dir string) (*ControlPlane, error) {
	binaries, err := Assets(ctx)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{dir: dir, binaries: binaries}
	if cp.admin, err = clientcmd.BuildConfigFromFlags("", cp.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("no control plane runs in %s: %w", dir, err)
	}
	cp.admin.QPS = -1
	cp.client, err = kubernetes.NewForConfig(cp.admin)
	return cp, err
}

// Store writes value into etcd under key, such as "/registry/pods/shop/web", without the API
// server's validation. The value may be JSON; the API server's watches get the object.
func (cp *ControlPlane) Store(ctx context.Context, key string, value []byte) error {
	// etcd's gateway takes bytes as base64, as encoding/json writes them.
	if err := cp.CallEtcd(ctx, "kv/put", map[string][]byte{"key": []byte(key), "value": value}, nil); err != nil {
		return fmt.Errorf("writing %d bytes to %s: %w", len(value), key, err)
	}
	return nil
}

// CallEtcd calls a method of etcd's gateway, such as maintenance/status, with a request as JSON, and
// reads the answer into answer, which may be nil.
func (cp *ControlPlane) CallEtcd(ctx context.Context, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cp.etcd+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("etcd answers %s to %s: %s", resp.Status, method, text)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// Minor returns the minor version of Kubernetes of a binary, such as 37 for kube-apiserver
// v1.37.1, without starting it: tools/build.sh builds older ones, and flags depend on the
// version.
func Minor(ctx context.Context, binary string) (int, error) {
	binaries, err := Assets(ctx)
	if err != nil {
		return 0, err
	}
	path, err := binaries.Path(binary)
	if err != nil {
		return 0, err
	}
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	// The output is "Kubernetes v1.37.1".
	parsed, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(string(output)), "Kubernetes "))
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	return int(parsed.Minor()), nil
}

// NoScheduler says why kube-scheduler cannot run on the API server; empty where it can.
// Kubernetes' version skew policy has no scheduler that is newer than the API server: it would
// wait for kinds that are not served.
func NoScheduler(ctx context.Context) (why string, err error) {
	server, err := Minor(ctx, "kube-apiserver")
	if err != nil {
		return "", err
	}
	scheduler, err := Minor(ctx, "kube-scheduler")
	if err != nil || scheduler <= server {
		return "", err
	}
	return fmt.Sprintf("kube-scheduler 1.%d does not run on an older kube-apiserver, of 1.%d", scheduler, server), nil
}
