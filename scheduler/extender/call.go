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

	"github.com/berthdev/berth/scheduler/fault"
)

// An answer may be twice as long as the question, since it repeats nodes and
// adds reasons, and this much more.
const answerBaseBytes = 1 << 20

// outcome is what a request came to.
type postResult struct {
	body []byte
	err  *Error
}

// ask sends a question to a verb and reads the answer into a value. The request
// runs on a worker: whatever holds it up, the caller goes on when the time is
// over, and what comes later is dropped with the worker.
func (c *Client) call(verb, path string, question, answer any) error {
	begin := c.options.Clock.Now()
	err := c.roundTrip(verb, path, question, answer)
	c.observe(verb, begin, err)
	if err == nil {
		return nil
	}
	c.options.Log.Info("An extender failed", "profile", c.profile, "extender", c.config.Name, "verb", verb, "kind", err.Kind, "told", err.Message, "cause", err.Cause)
	return err
}

func (c *Client) roundTrip(verb, path string, question, answer any) *Error {
	text, err := json.Marshal(question)
	if err != nil {
		return c.newError(verb, Garbled, "the question cannot be written", err)
	}
	select {
	case c.inFlight <- struct{}{}:
	default:
		return c.newError(verb, Crowded, fmt.Sprintf("%d requests have not come back", maxInFlight), nil)
	}
	ctx, cancel := c.options.Deadline(c.withRequestDeadline(c.lifetime), c.config.Timeout)
	defer cancel()
	var came postResult // read once back is closed
	back := make(chan struct{})
	c.options.Go(func() {
		defer func() { <-c.inFlight }()
		defer close(back)
		came.body, came.err = c.post(ctx, verb, path, text)
	})
	if c.options.Wait(ctx, back) != nil {
		return c.timeoutError(ctx, verb)
	}
	if came.err != nil {
		return came.err
	}
	if err := json.Unmarshal(came.body, answer); err != nil {
		return c.newError(verb, Garbled, "the answer is not the JSON that was asked for", err)
	}
	return nil
}

func (c *Client) timeoutError(ctx context.Context, verb string) *Error {
	if c.lifetime.Err() != nil {
		return c.newError(verb, Late, "the profile was replaced before it answered", ctx.Err())
	}
	return c.newError(verb, Late, fmt.Sprintf("no answer within %v", c.config.Timeout), ctx.Err())
}

// post makes the request and returns the body of the answer.
func (c *Client) post(ctx context.Context, verb, path string, question []byte) ([]byte, *Error) {
	if changed, err := c.certificate.refresh(ctx); err != nil && !c.certificate.available() {
		return nil, c.newError(verb, Unreachable, "its client certificate cannot be read", err)
	} else if err != nil {
		c.options.Log.Error(err, "A client certificate could not be read again; the last one is used", "extender", c.config.Name)
	} else if changed {
		c.http.CloseIdleConnections() // they were opened with another
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.verbURL(path), bytes.NewReader(question))
	if err != nil {
		return nil, c.newError(verb, Unreachable, "it cannot be asked", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "berth")
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil || c.timeLeft(ctx) <= 0 {
			return nil, c.timeoutError(ctx, verb)
		}
		return nil, c.newError(verb, Unreachable, "it cannot be reached, or is not who it should be", err)
	}
	defer func() { _ = response.Body.Close() }()
	return c.read(ctx, verb, response, answerBaseBytes+2*int64(len(question)))
}

// read returns the body of an answer of at most so many bytes.
func (c *Client) read(ctx context.Context, verb string, response *http.Response, most int64) ([]byte, *Error) {
	switch code := response.StatusCode; {
	case code >= 300 && code < 400:
		return nil, c.newError(verb, Refused, fmt.Sprintf("it redirects (status %d), which is not followed", code), nil)
	case code != http.StatusOK:
		return nil, c.newError(verb, Refused, fmt.Sprintf("status %d, want 200", code), nil)
	}
	if kind := response.Header.Get("Content-Type"); !isJSON(kind) {
		return nil, c.newError(verb, Garbled, "the answer says that it is not JSON", errors.New(sanitizeMessage(kind)))
	}
	if fault.ExtenderEndless {
		most = 1 << 40
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, c.timeoutError(ctx, verb)
	case err != nil:
		return nil, c.newError(verb, Garbled, "the answer breaks off", err)
	case int64(len(body)) > most:
		return nil, c.newError(verb, Garbled, fmt.Sprintf("the answer is longer than %d bytes", most), nil)
	}
	return body, nil
}

// speaksJSON says whether a content type may be JSON: servers that do not say
// what they send say text/plain.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || media == "text/json" || media == "text/plain")
}

func (c *Client) newError(verb string, kind Kind, told string, cause error) *Error {
	return &Error{Extender: c.config.Name, Verb: verb, Kind: kind, Message: told, Cause: cause}
}
