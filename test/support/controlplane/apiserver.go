package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// firstCertificates is the folder of the first API server's certificates.
const firstCertificates = "certs"

// AnotherAPIServer starts one more kube-apiserver on the same etcd, and returns the
// administrator's configuration for it. All tokens are valid at each; their watch caches
// differ. args are appended to those of APIServerArgs and override them.
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

// StopAPIServer ends the first kube-apiserver. The returned function starts it again at the
// same address with the same certificate, and waits until it is ready; its ctx bounds the
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

// startAPIServer starts a kube-apiserver with new certificates in this folder, and waits until
// it is ready.
func (cp *ControlPlane) startAPIServer(ctx context.Context, address, folder string, more ...string) (*Process, *rest.Config, error) {
	if err := os.RemoveAll(filepath.Join(cp.dir, folder)); err != nil {
		return nil, nil, err
	}
	return cp.launchAPIServer(ctx, address, folder, more...)
}

// launchAPIServer is startAPIServer with the certificates in the folder, if there are any.
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
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + cp.creds.key,
		"--service-account-signing-key-file=" + cp.creds.key,
		"--service-cluster-ip-range=10.0.0.0/16",
		// The service named kubernetes must not point at a loopback address.
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
	api.ready = func(ctx context.Context) (err error) {
		config, err = connect(ctx, "https://"+address, cp.creds.token, filepath.Join(certs, "apiserver.crt"))
		return err
	}
	err = api.Until(ctx, api.ready)
	return api, config, err
}

// connect returns the administrator's configuration once the API server is ready and has
// created the default namespaces. The server creates its certificate when it starts, so the
// file may not exist yet.
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

// credentials are the secrets that kube-apiserver accepts.
type credentials struct {
	// token is the administrator's, in the group system:masters.
	token string
	// tokenFile is the file with the token for kube-apiserver.
	tokenFile string
	// key is the RSA key that signs the tokens of service accounts.
	key string
}

func newCredentials(dir string) (credentials, error) {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return credentials{}, err
	}
	c := credentials{
		token:     hex.EncodeToString(random),
		tokenFile: filepath.Join(dir, "tokens.csv"),
		key:       filepath.Join(dir, "service-account.key"),
	}
	if err := os.WriteFile(c.tokenFile, []byte(c.token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return credentials{}, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return credentials{}, err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return c, os.WriteFile(c.key, block, 0o600)
}

// writeKubeconfig writes cfg, which must have its CA as a value, and its token as a value or as a
// file, to a file that only its owner may read.
func writeKubeconfig(path string, cfg *rest.Config) error {
	const name = "berth"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	if cfg.BearerTokenFile != "" {
		out.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: cfg.BearerTokenFile}
	}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.WriteToFile(*out, path)
}
