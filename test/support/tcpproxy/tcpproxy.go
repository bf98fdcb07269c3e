// Package tcpproxy is a proxy between TCP clients and a server that can be frozen, slowed down,
// cut, or pointed at another server. It knows nothing of what it carries, so that it also works
// between an API server and etcd, and in front of several API servers.
package tcpproxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a proxy to one server. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	end      context.Context
	ended    context.CancelFunc
	done     sync.WaitGroup

	mu     sync.Mutex
	target string
	// frozen is closed by Thaw; nil while bytes pass.
	frozen chan struct{}
	delay  time.Duration
	// links are the open connections.
	links map[*link]bool
}

// link is a connection of a client, and the one to the server that belongs to it.
type link struct {
	client, server net.Conn
	// stranded says that nothing passes any more.
	stranded atomic.Bool
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// Start starts a proxy to target, a host and port, on the loopback interface.
func Start(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a proxy to %s: %w", target, err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]bool{}}
	p.end, p.ended = context.WithCancel(context.Background())
	p.done.Go(p.accept)
	return p, nil
}

// Address returns the host and port at which clients reach the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Stop closes the proxy and all connections.
func (p *Proxy) Stop() {
	p.ended()
	_ = p.listener.Close()
	p.Cut()
	p.done.Wait()
}

// Freeze lets no byte pass in either direction. Connections stay open, and new ones are accepted.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Thaw ends what Freeze began: what was sent meanwhile arrives.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Delay delays what is sent from now on by d, in each direction.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes all connections. Clients may connect again.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Strand lets no byte pass on the connections that are open, for good, as a load balancer does
// that has forgotten them: neither side learns of it. New connections work.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stranded.Store(true)
	}
}

// Retarget lets new connections go to another server, and cuts those that are open.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the proxy is stopped
		}
		p.done.Go(func() { p.serve(client) })
	}
}

// serve connects a client with the server until either closes.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var dialer net.Dialer
	server, err := dialer.DialContext(p.end, "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	if p.end.Err() != nil {
		l.close() // Stop has not seen it
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(l, server, client) })
	both.Go(func() { p.copy(l, client, server) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// chunk is what one read returned, and when it is to be sent.
type chunk struct {
	data []byte
	due  time.Time
}

// chunks is how many chunks may be on their way.
const chunks = 1024

// copy copies from one side to the other, and closes both at the end.
func (p *Proxy) copy(l *link, to io.Writer, from io.Reader) {
	defer l.close()
	way := make(chan chunk, chunks)
	var sender sync.WaitGroup
	sender.Go(func() {
		defer l.close()
		p.send(l, to, way)
	})
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			p.mu.Lock()
			due := time.Now().Add(p.delay)
			p.mu.Unlock()
			way <- chunk{data[:n], due}
		}
		if err != nil {
			break
		}
	}
	close(way)
	sender.Wait()
}

// send sends each chunk when it is due and the proxy is not frozen. After an error it drops
// the rest.
func (p *Proxy) send(l *link, to io.Writer, way <-chan chunk) {
	broken := false
	for c := range way {
		if broken || !p.pass(c.due) || l.stranded.Load() {
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			broken = true
		}
	}
}

// pass waits until due, and while the proxy is frozen; it returns false when the proxy ends first.
func (p *Proxy) pass(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.end.Done():
		return false
	}
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen == nil {
			return true
		}
		select {
		case <-frozen:
		case <-p.end.Done():
			return false
		}
	}
}
