// Package faultproxy stands between a client and an API server, and does to
// Bindings what networks and API servers do: they are refused, answered wrongly,
// cut off before or after they count, held up, or arrive when nobody waits for
// them any more. All else passes as it is, unless the whole way is severed, or
// what watches tell is to arrive late.
package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy is the way to one API server.
type Proxy struct {
	server *httptest.Server
	target *url.URL
	// direct asks the API server; pass does so for the client.
	direct http.RoundTripper
	pass   *httputil.ReverseProxy

	mu     sync.Mutex
	decide func(Binding) *Fault
	seen   []*Binding
	late   sync.WaitGroup
	// severed is closed when what is severed is mended, nil while nothing is.
	severed chan struct{}
	lag     time.Duration
	end     context.Context
	ended   context.CancelFunc
}

// Binding is one that came by.
type Binding struct {
	Namespace, Pod string
	// Try is the how-manieth Binding of the pod this is, from 1.
	Try int
	// Held says that it is being held up.
	Held bool
	// Code is the API server's answer, 0 while there is none.
	Code int
}

// Start starts a proxy to the API server of config, on the loopback. It knows
// no credentials: those of each request go along.
func Start(config *rest.Config) (*Proxy, error) {
	config = rest.AnonymousClientConfig(config)
	direct, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("a way to the API server: %w", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	p := &Proxy{target: target, direct: direct}
	p.end, p.ended = context.WithCancel(context.Background())
	p.pass = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: direct, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, c)
	}
	p.server.StartTLS()
	return p, nil
}

// connection is the key of a request's connection.
type connection struct{}

// Config is that of a client that comes this way with the credentials of
// config.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = p.server.URL
	config.TLSClientConfig = rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}),
	}
	return config
}

// later lets arrive run when nobody waits for it any more; never after Stop.
func (p *Proxy) later(arrive func()) {
	// A client that was cut off learns it from the wire, which orders nothing
	// here: without the lock its Stop would wait for a group that is being
	// raised from 0.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end.Err() == nil {
		p.late.Go(arrive)
	}
}

// Stop ends all that is held up and all connections.
func (p *Proxy) Stop() {
	p.mu.Lock()
	p.ended()
	p.mu.Unlock()
	p.late.Wait()
	p.server.CloseClientConnections()
	p.server.Close()
}

// Do lets decide say what happens to each Binding from now on; nil: nothing.
// It forgets those that came by before.
func (p *Proxy) Do(decide func(Binding) *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.seen = decide, nil
}

// Bindings are those that came by since Do, in order.
func (p *Proxy) Bindings() []Binding {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Binding, len(p.seen))
	for i, b := range p.seen {
		all[i] = *b
	}
	return all
}

// ServeHTTP passes a request on, or does to it what is to be done.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.passes(r.Context()) {
		cut(w, r)
	}
	way := &answer{ResponseWriter: w, p: p, ctx: r.Context()}
	w = way
	b := bindingOf(r)
	switch {
	case b == nil && r.URL.Query().Get("watch") != "":
		n := newNews(way)
		defer n.end()
		p.pass.ServeHTTP(n, r)
		return
	case b == nil:
		p.pass.ServeHTTP(w, r)
		return
	}
	// First the whole of it: one that is on its way when another's connection is
	// cut goes with it, and has not come by.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut(w, r)
		return
	}
	fault := p.arrived(b)
	if fault == nil {
		fault = &Fault{Commits: true}
	}
	p.befall(w, r, body, b, fault)
}

// arrived notes a Binding and says what happens to it.
func (p *Proxy) arrived(b *Binding) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.Try = 1
	for _, other := range p.seen {
		if other.Namespace == b.Namespace && other.Pod == b.Pod {
			b.Try++
		}
	}
	p.seen = append(p.seen, b)
	if p.decide == nil {
		return nil
	}
	return p.decide(*b)
}

// bindingOf returns what r binds, nil when it is no Binding.
func bindingOf(r *http.Request) *Binding {
	// /api/v1/namespaces/NAMESPACE/pods/POD/binding
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method != http.MethodPost || len(parts) != 7 || parts[2] != "namespaces" || parts[4] != "pods" || parts[6] != "binding" {
		return nil
	}
	return &Binding{Namespace: parts[3], Pod: parts[5]}
}

// cut ends the connection of r, and with it all else that is on its way there.
func cut(_ http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connection{}).(net.Conn); ok {
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		_ = c.Close()
	}
	panic(http.ErrAbortHandler)
}
