package operator

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// probes are the checks of this process, by name. What fails is named to
// everybody, and why at the check's own path, such as /livez/loop: it may name a
// pod.
type probes struct{ live, ready map[string]func() error }

// serve has mgr serve them at address, before it leads and until it ends, as the
// control plane's own components do: /livez, /readyz, and /healthz for who knows
// the former by its old name.
func (p probes) serve(mgr ctrl.Manager, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	return mgr.Add(&manager.Server{
		Name: "health probe", Listener: listener, ShutdownTimeout: ptr.To(time.Second),
		Server: &http.Server{Handler: p.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16},
	})
}

// readiness returns the errors of the checks of /readyz, by their names.
func (p probes) readiness() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(p.ready)) {
		if err := p.ready[name](); err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(all...)
}

func (p probes) handler() http.Handler {
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
