package controllers

import (
	"context"
	"time"
)

// requestTimeout is how long one request to the API server may take.
const requestTimeout = 10 * time.Second

// request sends one request to the API server, and gives up after requestTimeout. One whose
// answer is lost would otherwise delay its caller for as long as the connection lives. A timeout
// of the whole client would end watches.
func request(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return send(ctx)
}
