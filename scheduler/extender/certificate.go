package extender

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Certificate is a client certificate in a Secret of type kubernetes.io/tls.
type Certificate struct {
	// Version changes whenever the Secret changes.
	Version string
	// Chain and Key are PEM.
	Chain, Key []byte
}

// certificateTTL is how long a certificate is used before its Secret is read again.
// Polling needs only the right to get Secrets, not to list or watch them.
const certificateTTL = 30 * time.Second

// clientCertificate is the client certificate of one extender.
type clientCertificate struct {
	read   func(ctx context.Context, secret string) (Certificate, error)
	secret string
	clock  clock.PassiveClock

	mu      sync.Mutex
	version string
	readAt  time.Time
	pair    *tls.Certificate
}

// refresh reads the Secret when it is due, and reports whether the certificate has
// changed. While there is a certificate, an unreadable or invalid Secret leaves it in
// use.
func (k *clientCertificate) refresh(ctx context.Context) (changed bool, err error) {
	if !k.startRead() {
		return false, nil
	}
	certificate, err := k.read(ctx, k.secret)
	if err != nil {
		return false, fmt.Errorf("reading Secret %s: %w", k.secret, err)
	}
	pair, err := tls.X509KeyPair(certificate.Chain, certificate.Key)
	if err != nil {
		err = fmt.Errorf("client certificate in Secret %s: %w", k.secret, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair != nil && certificate.Version == k.version {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	changed = k.pair != nil
	k.pair, k.version = &pair, certificate.Version
	return changed, nil
}

// startRead reports whether the caller must read the Secret now. Concurrent requests
// use the present certificate; without one each of them reads the Secret.
func (k *clientCertificate) startRead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secret == "" || k.pair != nil && k.clock.Since(k.readAt) < certificateTTL {
		return false
	}
	k.readAt = k.clock.Now()
	return true
}

// available reports whether there is a certificate, or none is needed.
func (k *clientCertificate) available() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.secret == "" || k.pair != nil
}

// getClientCertificate implements tls.Config.GetClientCertificate.
func (k *clientCertificate) getClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair == nil {
		return &tls.Certificate{}, nil // sends no certificate
	}
	return k.pair, nil
}
