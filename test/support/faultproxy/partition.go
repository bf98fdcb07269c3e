package faultproxy

import (
	"context"
	"net/http"
	"time"
)

// backlog is the number of writes of a watch's response that can be delayed.
const backlog = 1 << 16

// Partition stops all traffic in both directions: connections stay open, and requests get no
// response. Bindings that were sent on before are processed by the API server.
func (p *Proxy) Partition() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.severed = make(chan struct{})
}

// Heal ends what Partition began.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.severed != nil {
		close(p.severed)
		p.severed = nil
	}
}

// DelayWatches delays the events of watches by d from now on.
func (p *Proxy) DelayWatches(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag = d
}

// passes waits while traffic is stopped; it returns false when the client or the proxy ends
// first.
func (p *Proxy) passes(ctx context.Context) bool {
	p.mu.Lock()
	severed := p.severed
	p.mu.Unlock()
	return severed == nil || p.wait(ctx, nil, severed)
}

// answer is a response that waits while traffic is stopped.
type answer struct {
	http.ResponseWriter
	p   *Proxy
	ctx context.Context
}

func (a *answer) WriteHeader(code int) {
	if a.p.passes(a.ctx) {
		a.ResponseWriter.WriteHeader(code)
	}
}

func (a *answer) Write(data []byte) (int, error) {
	if !a.p.passes(a.ctx) {
		return 0, http.ErrAbortHandler
	}
	return a.ResponseWriter.Write(data)
}

// Flush sends what was written.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// delayed is the response to a watch, whose writes are delayed.
type delayed struct {
	*answer
	// resource is what is watched.
	resource string
	writes   chan delayedWrite
	last     time.Time
	done     chan struct{}
}

type delayedWrite struct {
	data []byte
	due  time.Time
}

func newDelayed(a *answer, resource string) *delayed {
	n := &delayed{answer: a, resource: resource, writes: make(chan delayedWrite, backlog), done: make(chan struct{})}
	go n.send()
	return n
}

// Write delays the data, in order.
func (n *delayed) Write(data []byte) (int, error) {
	n.p.mu.Lock()
	due := time.Now().Add(n.p.lag)
	n.p.mu.Unlock()
	if due.Before(n.last) {
		due = n.last
	}
	n.last = due
	select {
	case n.writes <- delayedWrite{append([]byte(nil), data...), due}:
		return len(data), nil
	case <-n.ctx.Done():
		return 0, n.ctx.Err()
	}
}

// Flush does nothing: each write is flushed when it is sent.
func (n *delayed) Flush() {}

// send sends each write when it is due.
func (n *delayed) send() {
	defer close(n.done)
	for delayedWrite := range n.writes {
		if wait := time.Until(delayedWrite.due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-n.ctx.Done():
			}
			timer.Stop()
		}
		n.waitReleased()
		if n.ctx.Err() != nil {
			continue // the client has gone
		}
		if _, err := n.answer.Write(delayedWrite.data); err == nil {
			n.answer.Flush()
		}
	}
}

// waitReleased waits while the watches of the resource are held.
func (n *delayed) waitReleased() {
	for n.ctx.Err() == nil {
		n.p.mu.Lock()
		held := n.p.held[n.resource]
		n.p.mu.Unlock()
		if held == nil || !n.p.wait(n.ctx, nil, held) {
			return
		}
	}
}

// end waits until all was sent, or the client has gone.
func (n *delayed) end() {
	close(n.writes)
	<-n.done
}
