package extender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
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
				GetClientCertificate: c.keys.show,
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
type forbiddenError struct{ address, is string }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("%s is %s: no extender may be there", e.address, e.is)
}

// allow says whether an address may be dialled.
func (c *Client) allow(to netip.AddrPort) error {
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

// dial connects to a host. Its name is looked up anew for each connection, and
// what is checked is the very address that is connected to: a name that had a
// harmless address a moment ago may have another now. One address of a name
// that is no extender's is enough to be refused.
func (c *Client) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	addresses, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if err := c.allow(netip.AddrPortFrom(address, uint16(port))); err != nil {
			return nil, err
		}
	}
	dialer := &net.Dialer{Control: c.control}
	for _, address := range addresses {
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, network, netip.AddrPortFrom(address, uint16(port)).String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// control has the last word, on the address that the kernel is given.
func (c *Client) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return c.allow(to)
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
