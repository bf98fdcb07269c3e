package extender

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Certificate is a client's, as a Secret of type kubernetes.io/tls holds it.
type Certificate struct {
	// Version changes when the Secret does.
	Version string
	// Chain and Key are PEM.
	Chain, Key []byte
}

// keyAge is how long a certificate is used before its Secret is read again: a
// change is followed within that time, with a right to get Secrets and none to
// list or watch them.
const certificateTTL = 30 * time.Second

// keys are the client certificate of one extender.
type clientCertificate struct {
	read   func(ctx context.Context, secret string) (Certificate, error)
	secret string
	clock  clock.PassiveClock

	mu      sync.Mutex
	version string
	readAt  time.Time
	pair    *tls.Certificate
}

// refresh reads the Secret where it is time, and says whether the certificate is
// another one now. As long as there is one, a Secret that cannot be read, or
// that is broken, leaves it in use; the error is then only told.
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

// due says whether the caller is to read the Secret now. Requests that come while
// it is read use the certificate that there is; without one, each reads it.
func (k *clientCertificate) startRead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secret == "" || k.pair != nil && k.clock.Since(k.readAt) < certificateTTL {
		return false
	}
	k.readAt = k.clock.Now()
	return true
}

// has says whether there is a certificate, or none is needed.
func (k *clientCertificate) available() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.secret == "" || k.pair != nil
}

// show is tls.Config.GetClientCertificate.
func (k *clientCertificate) getClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pair == nil {
		return &tls.Certificate{}, nil // none is shown
	}
	return k.pair, nil
}
