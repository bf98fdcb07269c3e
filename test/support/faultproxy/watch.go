package faultproxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is an event of a watch that the API server sent.
type Event struct {
	// Resource is the plural name in the path of the watch, such as "pods".
	Resource string
	Type     watch.EventType
}

// EventFault says what happens to an Event.
type EventFault int

const (
	// Pass sends the event on.
	Pass EventFault = iota
	// DropAndCut drops the event, and resets the watch: the client resumes it at the version
	// that it had before.
	DropAndCut
)

// SetEventFaults sets the function that returns the fault of each event of a watch; nil: no
// faults.
func (p *Proxy) SetEventFaults(decide func(Event) EventFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decideEvent = decide
}

// HoldWatches holds the events of all watches of a resource, those of watches that begin later
// included, until release is called. Then they arrive, in order.
func (p *Proxy) HoldWatches(resource string) (release func()) {
	held := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[resource] = held
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held[resource] == held {
			delete(p.held, resource)
			close(held)
		}
	}
}

// ExpireWatches resets the watches of a resource, with the events that are held, and answers
// 410 to those that resume: their clients list again, and see the objects as they are by then,
// not what happened between.
func (p *Proxy) ExpireWatches(resource string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expired[resource] = 0
	for w := range p.watches {
		if w.resource == resource {
			p.expired[resource]++
			w.reset()
		}
	}
}

// StaleLists makes the proxy answer each list of a resource at resource version 0 with the API
// server's answer of now, as an API server does whose watch cache lags, until end is called.
// Clients that want a list as the beginning of a watch are refused, so that they send a list.
// Lists that ask for what is current pass. path is that of the list at the API server, and token
// that of an account which may list.
func (p *Proxy) StaleLists(ctx context.Context, path, token string) (end func(), err error) {
	answers := map[string]staleAnswer{}
	for _, accept := range []string{jsonType, protobufType} {
		if answers[accept], err = p.list(ctx, path, token, accept); apierrors.IsNotAcceptable(err) {
			continue // kinds of CustomResourceDefinitions have no protobuf
		}
		if err != nil {
			return nil, err
		}
	}
	resource := resourceOf(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale[resource] = answers
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.stale, resource)
	}, nil
}

const jsonType, protobufType = "application/json", "application/vnd.kubernetes.protobuf"

// list sends a list that a watch cache answers.
func (p *Proxy) list(ctx context.Context, path, token, accept string) (a staleAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.target.JoinPath(path).String()+"?resourceVersion=0", nil)
	if err != nil {
		return a, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := p.direct.RoundTrip(request)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return a, &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: int32(response.StatusCode), Reason: reasons[response.StatusCode], Message: "listing " + path + ": " + response.Status,
		}}
	}
	a.contentType = response.Header.Get("Content-Type")
	a.body, err = io.ReadAll(response.Body)
	return a, err
}

// reasons are the reasons of codes that callers of list distinguish.
var reasons = map[int]metav1.StatusReason{http.StatusNotAcceptable: metav1.StatusReasonNotAcceptable}

// staleAnswer is the answer to a list.
type staleAnswer struct {
	body        []byte
	contentType string
}

// openWatch is a watch of a client.
type openWatch struct {
	resource string
	reset    context.CancelFunc
}

// serveWatch passes a watch on, with its faults.
func (p *Proxy) serveWatch(out *answer, r *http.Request) {
	resource := resourceOf(r.URL.Path)
	if refusal := p.refuseWatch(resource, r); refusal != nil {
		refusal(out, r)
		return
	}
	ctx, reset := context.WithCancel(r.Context())
	defer reset()
	out.ctx = ctx
	w := &openWatch{resource, reset}
	p.mu.Lock()
	p.watches[w] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, w)
	}()
	n := newDelayed(out, resource)
	defer n.end()
	p.pass.ServeHTTP(&eventStream{delayed: n}, r.WithContext(ctx))
}

// refuseWatch returns the refusal of a watch, or nil.
func (p *Proxy) refuseWatch(resource string, r *http.Request) func(http.ResponseWriter, *http.Request) {
	query := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case query.Get("sendInitialEvents") == "true" && p.stale[resource] != nil:
		return Status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, 0)
	case query.Get("sendInitialEvents") == "" && p.expired[resource] > 0:
		p.expired[resource]--
		return Status(http.StatusGone, metav1.StatusReasonExpired, 0)
	}
	return nil
}

// staleList returns the stale answer to a list; nil where it is passed on.
func (p *Proxy) staleList(r *http.Request) *staleAnswer {
	accept := r.Header.Get("Accept")
	if r.Method != http.MethodGet || !isList(r.URL.Path) || r.URL.Query().Get("resourceVersion") != "0" || strings.Contains(accept, "PartialObjectMetadata") {
		return nil
	}
	p.mu.Lock()
	answers := p.stale[resourceOf(r.URL.Path)]
	p.mu.Unlock()
	a, known := answers[jsonType]
	if protobuf, also := answers[protobufType]; also && strings.Contains(accept, protobufType) {
		a, known = protobuf, true
	}
	if !known {
		return nil
	}
	return &a
}

// serve writes the answer.
func (a *staleAnswer) serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.contentType)
	_, _ = w.Write(a.body)
}

// resourceParts returns the parts of a path from the resource on: pods/web/status of
// /api/v1/namespaces/shop/pods/web/status.
func resourceParts(path string) []string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return nil
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return parts
}

// resourceOf returns the plural name of the resource in a path; "" where there is none.
func resourceOf(path string) string {
	if parts := resourceParts(path); len(parts) > 0 {
		return parts[0]
	}
	return ""
}

// isList reports whether a path is that of all objects of a resource.
func isList(path string) bool { return len(resourceParts(path)) == 1 }

// errReset ends a watch that a fault resets.
var errReset = errors.New("reset by the proxy")

// eventStream is the response to a watch, in events.
type eventStream struct {
	*delayed
	// rest is the beginning of an event whose end the API server has not sent yet.
	rest []byte
}

// WriteHeader sends the header at once: the first event may come much later.
func (s *eventStream) WriteHeader(code int) {
	s.delayed.WriteHeader(code)
	s.answer.Flush()
}

// Write sends each whole event on, or injects its fault.
func (s *eventStream) Write(data []byte) (int, error) {
	split := splitterOf(s.Header().Get("Content-Type"))
	if split == nil {
		return s.delayed.Write(data)
	}
	s.rest = append(s.rest, data...)
	for {
		frame, event := split(s.rest)
		if frame == nil {
			return len(data), nil
		}
		s.rest = slices.Clone(s.rest[len(frame):])
		if s.p.faultOfEvent(Event{s.resource, event}) == DropAndCut {
			return 0, errReset
		}
		if _, err := s.delayed.Write(frame); err != nil {
			return 0, err
		}
	}
}

// faultOfEvent returns the fault of an event.
func (p *Proxy) faultOfEvent(event Event) EventFault {
	p.mu.Lock()
	decide := p.decideEvent
	p.mu.Unlock()
	if decide == nil {
		return Pass
	}
	return decide(event)
}

// splitterOf returns a function that returns the first event of a stream, and its type; nil
// where the stream has no whole event. It returns nil for a type of content that is no stream
// of events.
func splitterOf(contentType string) func([]byte) ([]byte, watch.EventType) {
	switch {
	case strings.HasPrefix(contentType, protobufType) && strings.Contains(contentType, "stream=watch"):
		return splitProtobuf
	case strings.HasPrefix(contentType, jsonType):
		return splitJSON
	}
	return nil
}

// lengthBytes is the length of the length of an event in protobuf.
const lengthBytes = 4

func splitProtobuf(data []byte) ([]byte, watch.EventType) {
	if len(data) < lengthBytes {
		return nil, ""
	}
	end := lengthBytes + int(binary.BigEndian.Uint32(data))
	if len(data) < end {
		return nil, ""
	}
	var event metav1.WatchEvent
	_ = event.Unmarshal(data[lengthBytes:end]) // what cannot be read has no type, and passes
	return data[:end:end], watch.EventType(event.Type)
}

func splitJSON(data []byte) ([]byte, watch.EventType) {
	end := bytes.IndexByte(data, '\n') + 1
	if end == 0 {
		return nil, ""
	}
	var event struct{ Type watch.EventType }
	_ = json.Unmarshal(data[:end], &event) // what cannot be read has no type, and passes
	return data[:end:end], event.Type
}
