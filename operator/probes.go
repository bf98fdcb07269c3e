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

// probes are the checks of this process, by name. What fails is named to everybody, and
// why at the check's own path, such as /livez/loop: errors must not name pods or profiles.
type probeChecks struct{ live, ready map[string]func() error }

// prober answers the probes of this process: /livez, /readyz, and /healthz for who knows
// the former by its old name, as the control plane's own components do. It answers before
// the process leads, and until it has ended.
type probeServer struct {
	handler atomic.Pointer[http.Handler]
	server  *http.Server
	serving sync.WaitGroup
}

// openProber listens at address; "" and "0" are nowhere. Until set is called, it goes by
// checks. Close it.
func startProbeServer(address string, checks probeChecks) (*probeServer, error) {
	p := &probeServer{}
	p.set(checks)
	p.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*p.handler.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16,
	}
	if address == "" || address == "0" {
		return p, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	p.serving.Go(func() { _ = p.server.Serve(listener) }) // until close
	return p, nil
}

// set replaces the checks.
func (p *probeServer) set(checks probeChecks) {
	handler := checks.handler()
	p.handler.Store(&handler)
}

// close stops listening. Requests under way have a second to be answered. p may be nil.
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

// readiness returns the errors of the checks of /readyz, by their names.
func (p probeChecks) readiness() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(p.ready)) {
		if err := p.ready[name](); err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

func (p probeChecks) handler() http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]func() error{"/livez": p.live, "/healthz": p.live, "/readyz": p.ready} {
		all := &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}}
		for name, check := range checks {
			all.Checks[name] = func(*http.Request) error { return check() }
		}
		mux.Handle(path, http.StripPrefix(path, all))
		mux.Handle(path+"/", http.StripPrefix(path, all))
	}
	return mux
}
