package ui

import (
	"context"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// The bounds of connections and requests.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 2 * time.Second
	maxHeaderBytes  = 16 << 10
	// queryTimeout bounds the time of one answer.
	queryTimeout = 2 * time.Minute
	// maxExpensive is how many expensive queries run at a time; expensiveTimeout is how long
	// others wait for them.
	maxExpensive     = 2
	expensiveTimeout = 10 * time.Second
)

// server answers the requests of the page.
type server struct {
	env     verb.Env
	cluster *cluster.Cluster
	live    *live
	guard   *guard
	assets  map[string]asset
	started time.Time
	// expensive has an element for each expensive query that runs.
	expensive chan struct{}
}

// newServer returns a server for requests to an address, as 127.0.0.1:8090.
func newServer(env verb.Env, c *cluster.Cluster, address string) *server {
	return &server{
		env: env, cluster: c, live: newLive(c.Client, c.Namespace), guard: newGuard(address), assets: embeddedAssets(),
		started: env.Now(), expensive: make(chan struct{}, maxExpensive),
	}
}

// handler returns the handler of all requests.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/session", answer(s.session))
	mux.HandleFunc("GET /api/stream", s.stream)
	mux.HandleFunc("GET /api/pods/{namespace}/{name}", answer(s.pod))
	mux.HandleFunc("GET /api/pods/{namespace}/{name}/matrix", answer(s.limited(s.matrix)))
	mux.HandleFunc("GET /api/profiles/{name}/revisions", answer(s.revisions))
	mux.HandleFunc("GET /api/profiles/{name}/diff", answer(s.limited(s.diff)))
	mux.HandleFunc("POST "+tryPath, answer(s.limited(s.try)))
	mux.HandleFunc("/", s.static)
	return s.guard.wrap(mux)
}

// serve answers requests until ctx ends. It closes the listener.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	watches := s.live.start(ctx)
	defer watches.Wait()
	defer stop()
	srv := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		// OPTIONS * is rejected by the guard, too.
		DisableGeneralOptionsHandler: true,
		// Streams end with ctx.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(s.env.ErrOut, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if srv.Shutdown(closing) != nil {
		_ = srv.Close() // a request that does not end with its context
	}
	<-ended
	return nil
}

// limited returns a query of which few run at a time, so that they leave memory and the API
// server to others. It waits for its turn, and is Unavailable after a while.
func (s *server) limited(q query) query {
	return func(r *http.Request) (any, error) {
		wait := time.NewTimer(expensiveTimeout)
		defer wait.Stop()
		select {
		case s.expensive <- struct{}{}:
		case <-wait.C:
			return nil, &apiError{http.StatusServiceUnavailable, "Other pods are being evaluated: try again in a few seconds."}
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		defer func() {
			// The copy of the cluster is garbage now. Go would keep its memory for long: the
			// server allocates little between two of these queries.
			debug.FreeOSMemory()
			<-s.expensive
		}()
		return q(r)
	}
}
