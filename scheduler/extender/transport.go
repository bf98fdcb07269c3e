package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Limits of connections.
const (
	maxConnections = 8
	maxIdle        = 2
	idleTime       = 30 * time.Second
	maxHeader      = 16 << 10
)

// newHTTP returns an HTTP client that uses no proxy, follows no redirect, connects to no
// forbidden address, and accepts only servers that one of authorities has signed.
func (c *Client) newHTTP(authorities *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       nil,
			DialContext: c.dial,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: authorities, ServerName: c.config.ServerName,
				GetClientCertificate: c.certificate.getClientCertificate,
			},
			DisableCompression:     true, // an answer could decompress to more than the limit
			MaxConnsPerHost:        maxConnections,
			MaxIdleConnsPerHost:    maxIdle,
			IdleConnTimeout:        idleTime,
			TLSHandshakeTimeout:    c.config.Timeout,
			ResponseHeaderTimeout:  c.config.Timeout,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// forbiddenError says that no extender may have an address.
type forbiddenError struct{ address, reason string }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("%s is %s: not allowed for extenders", e.address, e.reason)
}

// checkDial returns an error when an address must not be dialled.
func (c *Client) checkDial(to netip.AddrPort) error {
	if c.options.Allow != nil {
		return c.options.Allow(to)
	}
	to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	if is := checkAddress(to.Addr()); is != "" {
		return &forbiddenError{to.String(), is}
	}
	if slices.Contains(c.options.Forbidden, to) {
		return &forbiddenError{to.String(), "the API server's address"}
	}
	return nil
}

// maxAddresses limits the addresses of a host that are tried for one connection.
const maxAddresses = 16

// requestDeadlineKey is the context key of a request's deadline. An http.Transport
// dials with a context that has the values of the request's context, but not its
// deadline.
type requestDeadlineKey struct{}

// withRequestDeadline stores the deadline of a request that begins now in ctx.
func (c *Client) withRequestDeadline(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestDeadlineKey{}, c.options.Clock.Now().Add(c.config.Timeout))
}

// timeLeft returns the time that is left for the request of ctx.
func (c *Client) timeLeft(ctx context.Context) time.Duration {
	due, ok := ctx.Value(requestDeadlineKey{}).(time.Time)
	if !ok {
		return c.config.Timeout
	}
	return due.Sub(c.options.Clock.Now())
}

// dial connects to a host. It looks the name up for each connection and checks the
// addresses that it connects to, because the addresses of a name may change after an
// earlier check. One forbidden address of a name is enough to fail.
func (c *Client) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.options.Deadline(ctx, c.timeLeft(ctx))
	defer cancel()
	found, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var addresses []netip.AddrPort
	for _, address := range found {
		to := netip.AddrPortFrom(address, uint16(port))
		if err := c.checkDial(to); err != nil {
			return nil, err
		}
		addresses = append(addresses, to)
	}
	return c.dialSequentially(ctx, network, addresses[:min(len(addresses), maxAddresses)])
}

// dialSequentially connects to the first address that answers. Each address but the
// last gets a share of the time that is left, and the request itself another share: an
// address that does not answer leaves time for the next one and for the request. The
// error joins those of all addresses.
func (c *Client) dialSequentially(ctx context.Context, network string, addresses []netip.AddrPort) (net.Conn, error) {
	var errs []error
	for i, address := range addresses {
		if ctx.Err() != nil {
			break
		}
		limit := c.timeLeft(ctx)
		if more := len(addresses) - i - 1; more > 0 {
			limit /= time.Duration(more + 2)
		}
		conn, err := c.dialOne(ctx, network, address, limit)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, ctx.Err())...)
}

func (c *Client) dialOne(ctx context.Context, network string, address netip.AddrPort, limit time.Duration) (net.Conn, error) {
	ctx, cancel := c.options.Deadline(ctx, limit)
	defer cancel()
	return c.connect(ctx, network, address.String())
}

// checkConnect checks the address again just before the socket connects to it.
func (c *Client) checkConnect(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return c.checkDial(to)
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	lookup := c.options.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	addresses, err := lookup(ctx, host)
	if err == nil && len(addresses) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	return addresses, err
}
