// Package faultproxy is a proxy between a client and an API server that injects faults into
// Bindings, and into other writes: errors, wrong responses, connections that are closed before or after a Binding is
// committed, delays, and Bindings that arrive after their client has given up. It passes other
// requests unchanged, unless all traffic is stopped, or watches and lists have a fault of their own.
package faultproxy

import (
	"bytes"
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

// Proxy is a proxy to one API server.
type Proxy struct {
	server *httptest.Server
	target *url.URL
	// direct sends Bindings to the API server; pass proxies all other requests.
	direct http.RoundTripper
	pass   *httputil.ReverseProxy

	mu     sync.Mutex
	decide func(Binding) *Fault
	seen   []*Binding
	// decideWrite is decide for writes that are no Bindings.
	decideWrite func(Write) *Fault
	// decideEvent is decide for events of watches.
	decideEvent func(Event) EventFault
	watches     map[*openWatch]bool
	// By resource: held is closed when the events of its watches pass again, expired is how many
	// watches that resume are answered with 410, and stale are the answers to its lists by type.
	held    map[string]chan struct{}
	expired map[string]int
	stale   map[string]map[string]staleAnswer
	late    sync.WaitGroup
	// severed is closed by Mend; nil while traffic passes.
	severed chan struct{}
	lag     time.Duration
	end     context.Context
	ended   context.CancelFunc
}

// Binding is a Binding that the proxy received.
type Binding struct {
	Namespace, Pod string
	// Try is the number of the pod's Binding, from 1.
	Try int
	// Held says that the proxy delays it.
	Delayed bool
	// Code is the API server's status code, 0 while there is none.
	Code int
}

// Start starts a proxy to the API server of config, on the loopback interface. Requests keep
// their own credentials.
func Start(config *rest.Config) (*Proxy, error) {
	config = rest.AnonymousClientConfig(config)
	direct, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("a transport to the API server: %w", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("the API server's address: %w", err)
	}
	p := &Proxy{
		target: target, direct: direct,
		watches: map[*openWatch]bool{}, held: map[string]chan struct{}{}, expired: map[string]int{}, stale: map[string]map[string]staleAnswer{},
	}
	p.end, p.ended = context.WithCancel(context.Background())
	p.pass = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: direct, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	// A client that connects again while Stop closes the connections would keep a watch open, for
	// which Stop would wait.
	p.server.Config.BaseContext = func(net.Listener) context.Context { return p.end }
	p.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, c)
	}
	p.server.StartTLS()
	return p, nil
}

// connection is the context key of a request's connection.
type connection struct{}

// Config returns a client configuration for the proxy with the credentials of config.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = p.server.URL
	config.TLSClientConfig = rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}),
	}
	return config
}

// later runs arrive after its client has gone; never after Stop.
func (p *Proxy) later(arrive func()) {
	// The lock orders this with Stop, which a client can call as soon as its connection is
	// closed: a WaitGroup must not be raised from 0 while it is waited for.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end.Err() == nil {
		p.late.Go(arrive)
	}
}

// Stop ends all delayed Bindings and all connections.
func (p *Proxy) Stop() {
	p.mu.Lock()
	p.ended()
	p.mu.Unlock()
	p.late.Wait()
	p.server.CloseClientConnections()
	p.server.Close()
}

// SetFaults sets the function that returns the fault of each Binding; nil: no faults. It forgets
// earlier Bindings.
func (p *Proxy) SetFaults(decide func(Binding) *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.seen = decide, nil
}

// SetWriteFaults sets the function that returns the fault of each write that is no Binding;
// nil: no faults. A fault that is nil passes the write on; the function may do something
// first.
func (p *Proxy) SetWriteFaults(decide func(Write) *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decideWrite = decide
}

// Write is a write that is no Binding.
type Write struct {
	// Method is the HTTP method, Path the path of the URL.
	Method, Path string
	// Body is the body of the request; nil for a Binding.
	Body []byte
}

// writeFaults returns the function that returns the fault of a request that is no Binding;
// nil when there are none.
func (p *Proxy) writeFaults(r *http.Request) func(Write) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method == http.MethodGet {
		return nil
	}
	return p.decideWrite
}

// Bindings returns the Bindings since Do, in order.
func (p *Proxy) Bindings() []Binding {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Binding, len(p.seen))
	for i, b := range p.seen {
		all[i] = *b
	}
	return all
}

// ServeHTTP passes a request on, or injects a fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Context().Err() != nil || !p.passes(r.Context()) {
		cut(w, r)
	}
	out := &answer{ResponseWriter: w, p: p, ctx: r.Context()}
	w = out
	b := bindingOf(r)
	if b == nil && r.URL.Query().Get("watch") != "" {
		p.serveWatch(out, r)
		return
	}
	decide := p.writeFaults(r)
	if b == nil && decide == nil {
		if stale := p.staleList(r); stale != nil {
			stale.serve(w)
			return
		}
		p.pass.ServeHTTP(w, r)
		return
	}
	// Read the whole body first: a request whose connection is closed by another fault does
	// not count as received.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut(w, r)
		return
	}
	var fault *Fault
	if b != nil {
		if fault = p.arrived(b); fault == nil {
			fault = &Fault{Commits: true}
		}
	} else if fault = decide(Write{r.Method, r.URL.Path, body}); fault == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.pass.ServeHTTP(w, r)
		return
	}
	p.apply(w, r, body, b, fault)
}

// arrived records a Binding and returns its fault.
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

// bindingOf returns the Binding of r, nil when it is another request.
func bindingOf(r *http.Request) *Binding {
	// /api/v1/namespaces/NAMESPACE/pods/POD/binding
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if r.Method != http.MethodPost || len(parts) != 7 || parts[2] != "namespaces" || parts[4] != "pods" || parts[6] != "binding" {
		return nil
	}
	return &Binding{Namespace: parts[3], Pod: parts[5]}
}

// cut closes the connection of r, with all other requests on it.
func cut(_ http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connection{}).(net.Conn); ok {
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn()
		}
		_ = c.Close()
	}
	panic(http.ErrAbortHandler)
}
