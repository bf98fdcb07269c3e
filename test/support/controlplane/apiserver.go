package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// firstCertificates is the folder of the first API server's certificates.
const firstCertificates = "certs"

// AnotherAPIServer starts one more kube-apiserver on the same etcd, and returns
// the administrator's configuration for it. Processes and tokens are good at each:
// they differ in what their watch caches hold, and when. args are its flags beside
// those of APIServerArgs, over which they win.
func (cp *ControlPlane) AnotherAPIServer(ctx context.Context, args ...string) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for try := 1; ; try++ {
		address, err := FreeAddresses(1)
		if err != nil {
			return nil, err
		}
		certs := fmt.Sprintf("certs-%d-%d", len(cp.running()), try)
		api, config, err := cp.startAPIServer(ctx, address[0], certs, append(cp.options.APIServerArgs, args...)...)
		if err == nil || api == nil || !api.portTaken() || try == portTries {
			return config, err
		}
		cp.End(api)
	}
}

// StopAPIServer ends the first kube-apiserver. What is returned starts it again at the
// same address with the same certificate, and waits until it is ready; ctx bounds the
// start alone.
func (cp *ControlPlane) StopAPIServer() (again func(ctx context.Context) error) {
	cp.End(cp.api)
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, startLimit)
		defer cancel()
		address := strings.TrimPrefix(cp.admin.Host, "https://")
		var err error
		cp.api, _, err = cp.launchAPIServer(ctx, address, firstCertificates, cp.options.APIServerArgs...)
		return err
	}
}

// startAPIServer starts a kube-apiserver, whose certificates are in a folder of
// that name, and waits until it is ready.
func (cp *ControlPlane) startAPIServer(ctx context.Context, address, folder string, more ...string) (*Process, *rest.Config, error) {
	if err := os.RemoveAll(filepath.Join(cp.dir, folder)); err != nil {
		return nil, nil, err
	}
	return cp.launchAPIServer(ctx, address, folder, more...)
}

// launchAPIServer is startAPIServer with the certificates that are in the folder, if
// there are any.
func (cp *ControlPlane) launchAPIServer(ctx context.Context, address, folder string, more ...string) (*Process, *rest.Config, error) {
	certs := filepath.Join(cp.dir, folder)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	args := []string{
		"--etcd-servers=" + cp.etcd,
		"--bind-address=" + host,
		"--advertise-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + certs,
		"--token-auth-file=" + cp.creds.tokenFile,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.creds.key,
		"--service-account-signing-key-file=" + cp.creds.key,
		"--service-cluster-ip-range=10.0.0.0/16",
		// The service named kubernetes may not point at a loopback address.
		"--endpoint-reconciler-type=none",
	}
	if !cp.options.ControllerManager {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	api, err := cp.start("kube-apiserver", append(args, more...)...)
	if err != nil {
		return nil, nil, err
	}
	var config *rest.Config
	err = api.Until(ctx, func(ctx context.Context) error {
		config, err = connect(ctx, "https://"+address, cp.creds.token, filepath.Join(certs, "apiserver.crt"))
		return err
	})
	return api, config, err
}

// connect returns the administrator's configuration once the API server is ready
// and has made the namespaces that every cluster has. The server signs its own
// certificate when it starts, so the file may not be there yet.
func connect(ctx context.Context, host, token, ca string) (*rest.Config, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host: host, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem},
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	if err := expectOK(ctx, httpClient, host+"/readyz"); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return config, err
}
