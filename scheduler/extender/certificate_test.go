package extender

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// newCertificate returns a self-signed certificate and its key.
func newCertificate(name string) (*x509.Certificate, Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return certificate, Certificate{
		Version: name,
		Chain:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:     pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

func selfSigned() *x509.Certificate {
	certificate, _ := newCertificate("none")
	return certificate
}

func TestClientCertificateFollowsTheSecret(t *testing.T) {
	var seen []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		name := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		seen = append(seen, name)
		answer(`{"NodeNames": ["a"]}`)(w, r)
	})
	s.TLS.ClientAuth = tls.RequestClientCert
	_, first := newCertificate("first")
	_, second := newCertificate("second")
	current, broken := first, error(nil)
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	c, o := s.config(), localOptions()
	c.ClientCertificate, o.Clock = "mine", clock
	o.Certificate = func(_ context.Context, secret string) (Certificate, error) {
		if secret != "mine" {
			t.Errorf("Secret %s was read", secret)
		}
		return current, broken
	}
	extender := client(t, c, o)
	ask := func() error {
		_, _, _, err := extender.Filter(pod(), nodes("a"))
		return err
	}
	broken = errors.New("forbidden")
	if kind, message := failureOf(t, ask()); kind != Unreachable || message != "its client certificate cannot be read" {
		t.Errorf("%s %q", kind, message)
	}
	broken = nil
	for _, change := range []func(){
		func() {},
		func() { current = second }, // not read yet
		func() { clock.Step(certificateTTL) },
		func() { clock.Step(certificateTTL); broken = errors.New("the API server is gone") },
	} {
		if change(); ask() != nil {
			t.Fatal("the request failed")
		}
	}
	if got := len(seen); got != 4 || seen[0] != "first" || seen[1] != "first" || seen[2] != "second" || seen[3] != "second" {
		t.Errorf("the extender saw %v", seen)
	}
}

// While a Secret is read slowly, other requests go on with the present certificate.
func TestRequestsUseTheOldCertificateWhileTheSecretIsRead(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	_, first := newCertificate("first")
	_, second := newCertificate("second")
	k := &clientCertificate{secret: "s", clock: clock, read: func(context.Context, string) (Certificate, error) { return first, nil }}
	if _, err := k.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Step(certificateTTL)
	k.read = func(ctx context.Context, _ string) (Certificate, error) {
		if !k.mu.TryLock() {
			t.Fatal("a lock is held while the Secret is read")
		}
		k.mu.Unlock()
		if changed, err := k.refresh(ctx); changed || err != nil {
			t.Errorf("another request meanwhile: changed %v, error %v; want the present certificate", changed, err)
		}
		return second, nil
	}
	if changed, err := k.refresh(t.Context()); !changed || err != nil {
		t.Errorf("the Secret was replaced: changed %v, error %v; want true, none", changed, err)
	}
}
