package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// probeChecks are the checks of /livez and /readyz, by name. Everybody may read which
// check fails, and the error at the check's own path, such as /livez/loop: errors must
// not name pods or profiles.
type probeChecks struct{ live, ready map[string]func() error }

// probeServer serves the probes: /livez, /readyz, and /healthz, the older name of
// /livez, as the components of the control plane do. It serves before the process
// leads, and until it has ended.
type probeServer struct {
	handler atomic.Pointer[http.Handler]
	server  *http.Server
	serving sync.WaitGroup
}

// startProbeServer serves checks at address until set replaces them; with "0"
// nowhere. The caller closes it.
func startProbeServer(address string, checks probeChecks) (*probeServer, error) {
	p := &probeServer{}
	p.set(checks)
	p.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*p.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16,
	}
	if address == nowhere {
		return p, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	p.serving.Go(func() { _ = p.server.Serve(listener) }) // it ends with close
	return p, nil
}

// set replaces the checks.
func (p *probeServer) set(checks probeChecks) {
	handler := checks.handler()
	p.handler.Store(&handler)
}

// close stops listening. Requests in progress may take one more second. p may be nil.
func (p *probeServer) close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close()
	}
	p.serving.Wait()
}

// readiness returns the errors of the checks of /readyz, with their names.
func (p probeChecks) readiness() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.ready)) {
		if err := p.ready[name](); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (p probeChecks) handler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]func() error{"/livez": p.live, "/healthz": p.live, "/readyz": p.ready} {
		endpoint := &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}}
		for name, check := range checks {
			endpoint.Checks[name] = func(*http.Request) error { return check() }
		}
		mux.Handle(path, http.StripPrefix(path, endpoint))
		mux.Handle(path+"/", http.StripPrefix(path, endpoint))
	}
	return mux
}
