package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// answerBaseBytes is added to twice the length of the request to limit an answer,
// which repeats nodes and adds reasons.
const answerBaseBytes = 1 << 20

// postResult is the result of post.
type postResult struct {
	body []byte
	err  *Error
}

// call sends a request for a verb and decodes the answer. The request runs in a
// goroutine of its own: after the timeout the caller goes on, whatever holds the request
// up, and a late answer is dropped.
func (c *Client) call(verb, path string, args, answer any) error {
	begin := c.options.Clock.Now()
	err := c.roundTrip(verb, path, args, answer)
	c.observe(verb, begin, err)
	if err == nil {
		return nil
	}
	c.options.Log.Info("An extender failed", "profile", c.profile, "extender", c.config.Name, "verb", verb, "kind", err.Kind, "message", err.Message, "cause", err.Cause)
	return err
}

func (c *Client) roundTrip(verb, path string, args, answer any) *Error {
	text, err := json.Marshal(args)
	if err != nil {
		return c.newError(verb, Garbled, "the request cannot be encoded", err)
	}
	select {
	case c.inFlight <- struct{}{}:
	default:
		return c.newError(verb, Crowded, fmt.Sprintf("%d requests are still in flight", maxInFlight), nil)
	}
	ctx, cancel := c.options.Deadline(c.withRequestDeadline(c.lifetime), c.config.Timeout)
	defer cancel()
	var result postResult // read once done is closed
	done := make(chan struct{})
	c.options.Go(func() {
		defer func() { <-c.inFlight }()
		defer close(done)
		result.body, result.err = c.post(ctx, verb, path, text)
	})
	if c.options.Wait(ctx, done) != nil {
		return c.timeoutError(ctx, verb)
	}
	if result.err != nil {
		return result.err
	}
	if err := json.Unmarshal(result.body, answer); err != nil {
		return c.newError(verb, Garbled, "the answer is not the expected JSON", err)
	}
	return nil
}

func (c *Client) timeoutError(ctx context.Context, verb string) *Error {
	if c.lifetime.Err() != nil {
		return c.newError(verb, Late, "the profile was replaced before it answered", ctx.Err())
	}
	return c.newError(verb, Late, fmt.Sprintf("no answer within %v", c.config.Timeout), ctx.Err())
}

// post sends the request and returns the body of the answer.
func (c *Client) post(ctx context.Context, verb, path string, payload []byte) ([]byte, *Error) {
	if changed, err := c.certificate.refresh(ctx); err != nil && !c.certificate.available() {
		return nil, c.newError(verb, Unreachable, "its client certificate cannot be read", err)
	} else if err != nil {
		c.options.Log.Error(err, "A client certificate could not be read again; the last one is used", "extender", c.config.Name)
	} else if changed {
		c.http.CloseIdleConnections() // they use the old certificate
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.verbURL(path), bytes.NewReader(payload))
	if err != nil {
		return nil, c.newError(verb, Unreachable, "the request cannot be made", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "berth")
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil || c.timeLeft(ctx) <= 0 {
			return nil, c.timeoutError(ctx, verb)
		}
		return nil, c.newError(verb, Unreachable, "it cannot be reached, or its certificate cannot be verified", err)
	}
	defer func() { _ = response.Body.Close() }()
	return c.read(ctx, verb, response, answerBaseBytes+2*int64(len(payload)))
}

// read returns the body of an answer of at most limit bytes.
func (c *Client) read(ctx context.Context, verb string, response *http.Response, limit int64) ([]byte, *Error) {
	switch code := response.StatusCode; {
	case code >= 300 && code < 400:
		return nil, c.newError(verb, Refused, fmt.Sprintf("it redirects (status %d), which is not followed", code), nil)
	case code != http.StatusOK:
		return nil, c.newError(verb, Refused, fmt.Sprintf("status %d, want 200", code), nil)
	}
	if kind := response.Header.Get("Content-Type"); !isJSON(kind) {
		return nil, c.newError(verb, Garbled, "the Content-Type of the answer is not JSON", errors.New(sanitizeMessage(kind)))
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, c.timeoutError(ctx, verb)
	case err != nil:
		return nil, c.newError(verb, Garbled, "the answer is incomplete", err)
	case int64(len(body)) > limit:
		return nil, c.newError(verb, Garbled, fmt.Sprintf("the answer is longer than %d bytes", limit), nil)
	}
	return body, nil
}

// isJSON reports whether a content type may be JSON. Servers that set no content type
// send text/plain.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || media == "text/json" || media == "text/plain")
}

func (c *Client) newError(verb string, kind Kind, message string, cause error) *Error {
	return &Error{Extender: c.config.Name, Verb: verb, Kind: kind, Message: message, Cause: cause}
}
