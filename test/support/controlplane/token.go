package controlplane

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// issuer is the issuer and the audience of the tokens of service accounts.
const issuer = "https://kubernetes.default.svc"

// ShortToken returns a token of a service account that is valid for lifetime, which may be
// shorter than the ten minutes that the API server itself gives at least. The account must
// exist.
func (cp *ControlPlane) ShortToken(ctx context.Context, namespace, name string, lifetime time.Duration) (string, error) {
	account, err := cp.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	key, err := cp.creds.signingKey()
	if err != nil {
		return "", err
	}
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:" + namespace + ":" + name,
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(lifetime).Unix(),
		"kubernetes.io": map[string]any{"namespace": namespace, "serviceaccount": map[string]any{"name": name, "uid": account.UID}},
	}
	return sign(key, claims)
}

// sign returns claims as a JSON Web Token.
func sign(key *rsa.PrivateKey, claims map[string]any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(body)
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	return text + "." + encode(signature), nil
}

// signingKey reads the key that signs the tokens of service accounts.
func (c credentials) signingKey() (*rsa.PrivateKey, error) {
	data, err := os.ReadFile(c.key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s has no key", c.key)
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}
