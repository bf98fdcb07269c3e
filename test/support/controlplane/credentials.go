package controlplane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials are the files that kube-apiserver trusts.
type credentials struct {
	// token is the administrator's, in the group system:masters.
	token string
	// tokenFile is the file kube-apiserver reads it from.
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

// writeKubeconfig writes cfg, which must carry its CA and its token as values,
// to a file that its owner alone may read.
func writeKubeconfig(path string, cfg *rest.Config) error {
	const name = "berth"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.WriteToFile(*out, path)
}
