package cluster

import (
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/transport"
)

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// endingWith returns a wrapper of transports whose requests also end when ctx ends: the mapper of
// kinds calls discovery without a context.
func endingWith(ctx context.Context) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			both, cancel := context.WithCancel(r.Context())
			stop := context.AfterFunc(ctx, cancel)
			end := func() {
				stop()
				cancel()
			}
			response, err := next.RoundTrip(r.WithContext(both))
			if err != nil {
				end()
				if ctx.Err() != nil {
					err = ctx.Err()
				}
				return nil, err
			}
			response.Body = &body{response.Body, end}
			return response, nil
		})
	}
}

// body is the body of a response. The request ends when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

// Close closes the body.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
