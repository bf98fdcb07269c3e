package extender

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Options are what clients of extenders are lent. The zero value is that of a
// process that has nothing to add.
type Options struct {
	// Certificate reads the client certificate that a Secret holds. Required
	// where an extender names one.
	Certificate func(ctx context.Context, secret string) (Certificate, error)
	// Forbidden are addresses with ports that no extender has beside those that
	// checkAddress knows, such as the API server's.
	Forbidden []netip.AddrPort
	// Allow says whether an address may be dialled; nil: checkAddress and
	// Forbidden do. It is for tests, whose servers are on this host.
	Allow func(netip.AddrPort) error
	// Lookup returns the addresses of a host; nil: the process's resolver does.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Deadline ends a context after a time; nil: context.WithTimeout.
	Deadline func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Clock tells how long requests take; nil: the real one.
	Clock clock.PassiveClock
	Log   logr.Logger
	// Go starts a request beside the caller; nil means framework.Goroutine. Wait
	// waits for it; nil means framework.Block.
	Go   func(work func())
	Wait framework.WaitFunc
}

// Client is one extender of one generation of a profile. It is safe for
// concurrent use.
type Client struct {
	config   Config
	profile  string
	options  Options
	lifetime context.Context
	http     *http.Client
	// connect opens a connection to an address.
	connect     func(ctx context.Context, network, address string) (net.Conn, error)
	certificate *clientCertificate
	// out are the requests under way, left behind or not.
	inFlight chan struct{}
}

var _ fwk.Extender = (*Client)(nil)

// mostOut bounds the requests of one extender that have not come back: more are
// refused at once. The loop has one at a time, bindings the others.
const maxInFlight = 64

// New returns the client of an extender of a profile, which ends with life. It
// opens nothing. The error says what c lacks.
func New(life context.Context, profile string, c Config, o Options) (*Client, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(c.CABundle) {
		return nil, errors.New("its caBundle holds no certificate")
	}
	if err := CheckURL(c.URL); err != nil {
		return nil, fmt.Errorf("its url: %w", err)
	}
	if c.ClientCertificate != "" && o.Certificate == nil {
		return nil, errors.New("it names a client certificate, and no Secret can be read here")
	}
	if o.Deadline == nil {
		o.Deadline = context.WithTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Go == nil {
		o.Go = framework.Goroutine
	}
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	client := &Client{config: c, profile: profile, options: o, lifetime: life, inFlight: make(chan struct{}, maxInFlight)}
	client.certificate = &clientCertificate{read: o.Certificate, secret: c.ClientCertificate, clock: o.Clock}
	client.connect = (&net.Dialer{Control: client.checkConnect}).DialContext
	client.http = client.newHTTP(authorities)
	return client, nil
}

// Close lets go of the connections.
func (c *Client) Close() error {
	if !fault.ExtenderLeftOpen {
		c.http.CloseIdleConnections()
	}
	return nil
}

// Name is the extender's, as the profile's spec has it.
func (c *Client) Name() string { return c.config.Name }

// IsFilter says whether it is asked which nodes may have a pod.
func (c *Client) IsFilter() bool { return c.config.Filter != "" }

// IsPrioritizer says whether it is asked how good nodes are.
func (c *Client) IsPrioritizer() bool { return c.config.Prioritize != "" }

// IsBinder says whether it binds pods.
func (c *Client) IsBinder() bool { return c.config.Bind != "" }

// SupportsPreemption says whether it is asked about victims.
func (c *Client) SupportsPreemption() bool { return c.config.Preempt != "" }

// IsIgnorable says whether an attempt goes on when it fails.
func (c *Client) IsIgnorable() bool { return c.config.Ignorable }

// IsInterested says whether it is asked about the pod.
func (c *Client) IsInterested(pod *v1.Pod) bool { return c.config.Interested(pod) }

// at is where a verb is.
func (c *Client) verbURL(path string) string {
	return strings.TrimRight(c.config.URL, "/") + "/" + path
}
