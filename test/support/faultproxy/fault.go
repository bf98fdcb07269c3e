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

// Fault is what happens to one Binding. The zero value loses it, and the
// connection with it.
type Fault struct {
	// Hold, where it is not nil, is waited for before the Binding goes on.
	Hold <-chan struct{}
	// Commits says that the API server gets the Binding then.
	Commits bool
	// Late, where it is not nil, is waited for before the API server gets the
	// Binding, whatever its client was answered meanwhile.
	Late <-chan struct{}
	// HoldAnswer, where it is not nil, is waited for before the client is
	// answered.
	HoldAnswer <-chan struct{}
	// Answer is what the client gets; nil: what the API server said or, where
	// it did not get the Binding, a connection that is cut.
	Answer func(http.ResponseWriter, *http.Request)
}

// Cut is an answer: the connection ends.
func Cut(w http.ResponseWriter, r *http.Request) { cut(w, r) }

// Status is an answer as the API server gives it. retryAfter, where it is not
// 0, is how many seconds the client is asked to wait.
func Status(code int, reason metav1.StatusReason, retryAfter int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "as the proxy was told",
		})
	}
}

// befall does to a Binding what fault says.
func (p *Proxy) befall(w http.ResponseWriter, r *http.Request, body []byte, b *Binding, fault *Fault) {
	var answer *http.Response
	if !p.held(r.Context(), b, fault.Hold) {
		cut(w, r)
	}
	switch {
	case fault.Late != nil:
		late := r.Clone(context.WithoutCancel(r.Context()))
		p.later(func() {
			if p.held(late.Context(), nil, fault.Late) {
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
	if !p.held(r.Context(), b, fault.HoldAnswer) {
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
}

// held waits for until, if there is such; it reports false when the client or
// the proxy goes first.
func (p *Proxy) held(ctx context.Context, b *Binding, until <-chan struct{}) bool {
	if until == nil {
		return true
	}
	p.note(b, func() { b.Held = true })
	defer p.note(b, func() { b.Held = false })
	select {
	case <-until:
		return true
	case <-ctx.Done():
	case <-p.end.Done():
	}
	return false
}

// commits is how often the API server is asked to take a Binding: the proxy's
// own way there may break under a request, and that is none of the faults.
const commits = 5

// commit lets the API server have the Binding; it returns nil when that cannot
// be reached.
func (p *Proxy) commit(r *http.Request, body []byte, b *Binding) *http.Response {
	for range commits {
		on := r.Clone(context.WithoutCancel(r.Context()))
		on.URL.Scheme, on.URL.Host, on.Host, on.RequestURI = p.target.Scheme, p.target.Host, "", ""
		on.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		on.Body, on.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if response, err := p.direct.RoundTrip(on); err == nil {
			p.note(b, func() { b.Code = response.StatusCode })
			return response
		}
	}
	return nil
}

// note changes what is known of a Binding.
func (p *Proxy) note(b *Binding, change func()) {
	if b == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}
