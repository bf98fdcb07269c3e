package extender

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// Bounds of connections.
const (
	maxConnections = 8
	maxIdle        = 2
	idleTime       = 30 * time.Second
	maxHeader      = 16 << 10
)

// newHTTP returns a client that goes where it is sent and nowhere else: through
// no proxy, after no redirection, to no address that an extender cannot have,
// and only to whom the given authorities vouch for.
func (c *Client) newHTTP(authorities *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       nil,
			DialContext: c.dial,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: c.config.ServerName,
				GetClientCertificate: c.certificate.getClientCertificate,
			},
			DisableCompression:     true, // what unpacks to more than was sent
			MaxConnsPerHost:        maxConnections,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTime,
			TLSHandshakeTimeout:    c.config.Timeout,
			ResponseHeaderTimeout:  c.config.Timeout,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			if fault.ExtenderRedirected {
				return nil
			}
			return http.ErrUseLastResponse
		},
	}
}

// forbiddenError says that no extender is at an address.
type forbiddenError struct{ address, reason string }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("%s is %s: no extender may be there", e.address, e.reason)
}

// allow says whether an address may be dialled.
func (c *Client) checkDial(to netip.AddrPort) error {
	if c.options.Allow != nil {
		return c.options.Allow(to)
	}
	to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	if is := checkAddress(to.Addr()); is != "" && !fault.ExtenderAnywhere {
		return &forbiddenError{to.String(), is}
	}
	if slices.Contains(c.options.Forbidden, to) {
		return &forbiddenError{to.String(), "the API server's address"}
	}
	return nil
}
