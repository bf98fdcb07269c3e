package faultproxy

import (
	"context"
	"net/http"
	"time"
)

// backlog is how many pieces of a watch's answer may wait for their time.
const backlog = 1 << 16

// Sever lets nothing pass in either direction from now on, and tells nobody:
// connections stay open, and whoever asks gets no answer. Bindings that had come
// by go on at the API server.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.severed = make(chan struct{})
}

// Mend ends what Sever began.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.severed != nil {
		close(p.severed)
		p.severed = nil
	}
}

// Lag lets what watches tell arrive so much later, from now on.
func (p *Proxy) Lag(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag = d
}

// passes waits until something may pass; it reports false when the client or the
// proxy goes first.
func (p *Proxy) passes(ctx context.Context) bool {
	p.mu.Lock()
	severed := p.severed
	p.mu.Unlock()
	return severed == nil || p.held(ctx, nil, severed)
}

// answer is the way of an answer to its client: it waits where that is severed.
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

// news is the way of what a watch tells, each piece in its time.
type news struct {
	*answer
	pieces chan piece
	last   time.Time
	over   chan struct{}
}

type piece struct {
	data []byte
	due  time.Time
}

func newNews(a *answer) *news {
	n := &news{answer: a, pieces: make(chan piece, backlog), over: make(chan struct{})}
	go n.tell()
	return n
}

// Write lets the data wait for its time, and what follows behind it.
func (n *news) Write(data []byte) (int, error) {
	n.p.mu.Lock()
	due := time.Now().Add(n.p.lag)
	n.p.mu.Unlock()
	if due.Before(n.last) {
		due = n.last
	}
	n.last = due
	select {
	case n.pieces <- piece{append([]byte(nil), data...), due}:
		return len(data), nil
	case <-n.ctx.Done():
		return 0, n.ctx.Err()
	}
}

// Flush does nothing: each piece is sent when its time comes.
func (n *news) Flush() {}

// tell sends each piece in its time.
func (n *news) tell() {
	defer close(n.over)
	for piece := range n.pieces {
		if wait := time.Until(piece.due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-n.ctx.Done():
			}
			timer.Stop()
		}
		if n.ctx.Err() != nil {
			continue // nobody listens
		}
		if _, err := n.answer.Write(piece.data); err == nil {
			n.answer.Flush()
		}
	}
}

// end waits until all was told, or nobody listens.
func (n *news) end() {
	close(n.pieces)
	<-n.over
}
