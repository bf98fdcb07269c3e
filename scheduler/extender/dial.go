package extender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// maxAddresses bounds the addresses of a name that are tried for one connection.
const maxAddresses = 16

// dueKey is the key of the time by which a request has to be answered. An
// http.Transport dials under a context with the values of the request's, but
// without its deadline.
type requestDeadlineKey struct{}

// withDue notes in ctx when a request that begins now has to be answered.
func (c *Client) withRequestDeadline(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestDeadlineKey{}, c.options.Clock.Now().Add(c.config.Timeout))
}

// left is how much time the request has for which a connection is opened.
func (c *Client) timeLeft(ctx context.Context) time.Duration {
	due, ok := ctx.Value(requestDeadlineKey{}).(time.Time)
	if !ok {
		return c.config.Timeout
	}
	return due.Sub(c.options.Clock.Now())
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

// dialInTurn connects to the first address that answers. Each address but the last
// has its share of the time that is left, and the request itself has another: an
// address that does not answer at all leaves time for the next one, and for the
// answer. The error says what is wrong with each of them.
func (c *Client) dialSequentially(ctx context.Context, network string, addresses []netip.AddrPort) (net.Conn, error) {
	var errs []error
	for i, address := range addresses {
		if ctx.Err() != nil {
			break
		}
		limit := c.timeLeft(ctx)
		if more := len(addresses) - i - 1; more > 0 && !fault.FirstAddressTakesAll {
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

// control has the last word, on the address that the kernel is given.
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
