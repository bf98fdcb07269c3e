package faultproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault says what happens to one Binding. The zero value drops it and closes the connection.
type Fault struct {
	// Hold, where it is not nil, is waited for before the Binding is sent on.
	Hold <-chan struct{}
	// Commits says that the Binding is sent to the API server.
	Commits bool
	// Late, where it is not nil, is waited for before the Binding is sent to the API server,
	// after its client got a response.
	Late <-chan struct{}
	// HoldAnswer, where it is not nil, is waited for before the client gets a response.
	HoldAnswer <-chan struct{}
	// Answer is the client's response; nil: that of the API server or, where it did not get
	// the Binding, a closed connection.
	Answer func(http.ResponseWriter, *http.Request)
	// Answered, where it is not nil, is called after the response was sent to the client.
	Answered func()
}

// Cut is a Fault.Answer that closes the connection.
func Cut(w http.ResponseWriter, r *http.Request) { cut(w, r) }

// Status is a Fault.Answer with a Status of the API server. retryAfter is the header
// Retry-After in seconds, where it is not 0.
func Status(code int, reason metav1.StatusReason, retryAfter int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected by the proxy",
		})
	}
}

// apply applies a fault to a Binding.
func (p *Proxy) apply(w http.ResponseWriter, r *http.Request, body []byte, b *Binding, fault *Fault) {
	var answer *http.Response
	if !p.wait(r.Context(), b, fault.Hold) {
		cut(w, r)
	}
	switch {
	case fault.Late != nil:
		late := r.Clone(context.WithoutCancel(r.Context()))
		p.later(func() {
			if p.wait(late.Context(), nil, fault.Late) {
				if response := p.commit(late, body, b); response != nil {
					_ = response.Body.Close()
				}
			}
		})
	case fault.Commits:
		if answer = p.commit(r, body, b); answer != nil {
			defer func() { _ = answer.Body.Close() }()
		}
	}
	if !p.wait(r.Context(), b, fault.HoldAnswer) {
		cut(w, r)
	}
	switch {
	case fault.Answer != nil:
		fault.Answer(w, r)
	case answer != nil:
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	default:
		cut(w, r)
	}
	if fault.Answered != nil {
		_ = http.NewResponseController(w).Flush() // a client that has gone needs no response
		fault.Answered()
	}
}

// wait waits for until, if it is not nil; it returns false when the client or the proxy ends
// first.
func (p *Proxy) wait(ctx context.Context, b *Binding, until <-chan struct{}) bool {
	if until == nil {
		return true
	}
	p.update(b, func() { b.Delayed = true })
	defer p.update(b, func() { b.Delayed = false })
	select {
	case <-until:
		return true
	case <-ctx.Done():
	case <-p.end.Done():
	}
	return false
}

// commitTries is how often a Binding is sent to the API server: the proxy's own connection may
// break under a request, which is not an injected fault.
const commitTries = 5

// commit sends the Binding to the API server; it returns nil when that is unreachable.
func (p *Proxy) commit(r *http.Request, body []byte, b *Binding) *http.Response {
	for range commitTries {
		on := r.Clone(context.WithoutCancel(r.Context()))
		on.URL.Scheme, on.URL.Host, on.Host, on.RequestURI = p.target.Scheme, p.target.Host, "", ""
		on.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		on.Body, on.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if response, err := p.direct.RoundTrip(on); err == nil {
			p.update(b, func() { b.Code = response.StatusCode })
			return response
		}
	}
	return nil
}

// update changes the record of a Binding.
func (p *Proxy) update(b *Binding, change func()) {
	if b == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}
