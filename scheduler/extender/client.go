// Package extender is the client of HTTP extenders (k8s.io/kube-scheduler/extender/v1)
// behind the framework's Extender interface. It does not trust the servers: it limits
// the time and size of an answer, checks what the answer says, and restricts the
// addresses that it connects to, because the URL may come from a user who wants Berth to
// reach another server.
package extender

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Options are the dependencies of clients. The zero value uses the defaults.
type Options struct {
	// Certificate reads the client certificate from a Secret. Required when an
	// extender names one.
	Certificate func(ctx context.Context, secret string) (Certificate, error)
	// Forbidden are addresses with ports that no extender may have, in addition to those of
	// checkAddress, such as those of the API server.
	Forbidden []netip.AddrPort
	// Allow checks an address before it is dialled; nil for checkAddress and
	// Forbidden. Tests set it, because their servers are on this host.
	Allow func(netip.AddrPort) error
	// Lookup returns the addresses of a host; nil for the resolver of the process.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Deadline ends a context after a time; nil for context.WithTimeout.
	Deadline func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Clock measures requests; nil for the real clock.
	Clock clock.PassiveClock
	Log   logr.Logger
	// Go runs a request in the background; nil means framework.Goroutine. Wait waits
	// for it; nil means framework.Block.
	Go   func(work func())
	Wait framework.WaitFunc
}

// Client is the client of one extender of one Generation of a profile. It is safe for
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
	// inFlight has an entry for each request in flight, including those whose caller
	// has timed out.
	inFlight chan struct{}
}

var _ fwk.Extender = (*Client)(nil)

// maxInFlight limits the requests of one extender in flight; further ones fail at
// once. The scheduling loop has one at a time, binding cycles have the others.
const maxInFlight = 64

// New returns the client of an extender of a profile, which ends with lifetime. It
// opens no connection. The error says what is invalid in c.
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

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Name returns the extender's name in the profile's spec.
func (c *Client) Name() string { return c.config.Name }

// IsFilter reports whether the extender filters nodes.
func (c *Client) IsFilter() bool { return c.config.Filter != "" }

// IsPrioritizer reports whether the extender scores nodes.
func (c *Client) IsPrioritizer() bool { return c.config.Prioritize != "" }

// IsBinder reports whether the extender binds pods.
func (c *Client) IsBinder() bool { return c.config.Bind != "" }

// SupportsPreemption reports whether the extender processes preemption victims.
func (c *Client) SupportsPreemption() bool { return c.config.Preempt != "" }

// IsIgnorable reports whether an attempt continues when the extender fails.
func (c *Client) IsIgnorable() bool { return c.config.Ignorable }

// IsInterested reports whether the extender is called for the pod.
func (c *Client) IsInterested(pod *v1.Pod) bool { return c.config.Interested(pod) }

// verbURL returns the URL of a verb.
func (c *Client) verbURL(path string) string {
	return strings.TrimRight(c.config.URL, "/") + "/" + path
}

// Config is one extender of a resolved profile.
type Config struct {
	// Name identifies the extender in reasons and metrics.
	Name string
	// URL is the base of the verbs' paths; CheckURL must accept it.
	URL string
	// Filter, Prioritize, Preempt and Bind are the verbs' paths; "" for a verb that
	// the extender does not have.
	Filter     string `json:",omitempty"`
	Prioritize string `json:",omitempty"`
	Preempt    string `json:",omitempty"`
	Bind       string `json:",omitempty"`
	// Weight multiplies the scores that Prioritize returns.
	Weight int64
	// Timeout limits one request.
	Timeout time.Duration
	// CABundle holds the CA certificates in PEM.
	CABundle []byte
	// ServerName is the name in the extender's certificate; "" for the URL's host.
	ServerName string `json:",omitempty"`
	// ClientCertificate names the Secret with the client certificate; "" for none.
	ClientCertificate string `json:",omitempty"`
	// NodeCacheCapable says that requests contain node names only.
	NodeCacheCapable bool `json:",omitempty"`
	// Managed are resource names, sorted. The extender is called only for pods that
	// request one of them; for all pods when there is none.
	Managed []string `json:",omitempty"`
	// Ignorable says that an attempt continues when the extender fails.
	Ignorable bool `json:",omitempty"`
}

// Interested reports whether the extender is called for a pod: a container or init
// container requests or limits a managed resource.
func (c *Config) Interested(pod *v1.Pod) bool {
	if len(c.Managed) == 0 {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Containers, c.manages) || slices.ContainsFunc(pod.Spec.InitContainers, c.manages)
}

func (c *Config) manages(container v1.Container) bool {
	return slices.ContainsFunc(c.Managed, func(name string) bool {
		_, requested := container.Resources.Requests[v1.ResourceName(name)]
		_, limited := container.Resources.Limits[v1.ResourceName(name)]
		return requested || limited
	})
}
