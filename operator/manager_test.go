package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	restclient "k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berthdev/berth/scheduler/framework"
)

func TestNewErrorsNameTheCause(t *testing.T) {
	unreachable := WithRESTConfig(&restclient.Config{Host: "https://nobody.invalid:1"})
	for name, c := range map[string]struct {
		args []string
		with []Option
		want string
	}{
		"a flag that does not exist":             {[]string{"--colour=red"}, nil, "unknown flag: --colour"},
		"a flag with a wrong value":              {[]string{"--v=-1"}, nil, "--v: must not be negative, is -1"},
		"a kubeconfig that does not exist":       {[]string{"--kubeconfig=/nowhere"}, nil, "no way to reach the API server (is --kubeconfig right?)"},
		"an API server that does not response":   {nil, []Option{unreachable}, "looking for namespace berth-system"},
		"a plugin without a factory":             {nil, []Option{unreachable, WithPlugins(framework.Registration{Name: "Empty"})}, `plugin "Empty": the factory is nil`},
		"a plugin with the name of a built-in":   {nil, []Option{unreachable, WithPlugins(registrationNamed("NodeName"))}, `plugin "NodeName": is registered already`},
		"the same plugin in two of the Options":  {nil, []Option{unreachable, WithPlugins(registrationNamed("A")), WithPlugins(registrationNamed("A"))}, `plugin "A": is registered already`},
		"a configuration with unusable contents": {nil, []Option{WithRESTConfig(&restclient.Config{Host: "://"})}, "creating a client"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // requests fail at once
			if _, err := New(ctx, c.args, append(c.with, WithLogger(logr.Discard()))...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
		})
	}
}

func registrationNamed(name string) framework.Registration {
	return framework.Registration{Name: name, New: failingFactory, Points: []framework.Point{framework.PostBind}}
}

func TestTheFlagsOverrideTheRateLimitsAndTheCompressionOfTheConfiguration(t *testing.T) {
	for flag, compressed := range map[string]bool{"": false, "--kube-api-compression": true} {
		o, err := parseFlags(append(strings.Fields(flag), "--kube-api-qps=7", "--kube-api-burst=9"))
		if err != nil {
			t.Fatal(err)
		}
		given := &restclient.Config{Host: "https://there", QPS: 1, Burst: 2, DisableCompression: compressed}
		got, err := o.restConfig(given)
		if err != nil || got.Host != given.Host || got.QPS != 7 || got.Burst != 9 || given.QPS != 1 {
			t.Errorf("got %v, %v; the configuration that was passed has %v requests a second", got, err, given.QPS)
		}
		if got.DisableCompression == compressed {
			t.Errorf("%q: no compression: %t", flag, got.DisableCompression)
		}
	}
}

func TestEachManagerHasAMetricsRegistryOfItsOwn(t *testing.T) {
	one, other := newSettings(nil), newSettings(nil)
	if one.metricsRegistry == other.metricsRegistry || one.metricsRegistry == nil {
		t.Errorf("registries %p and %p", one.metricsRegistry, other.metricsRegistry)
	}
}

func TestTheMetricsServerServesTheRegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	bound := prometheus.NewCounter(prometheus.CounterOpts{Name: "bound_total"})
	registry.MustRegister(bound)
	bound.Inc()
	refuses := func(*restclient.Config, *http.Client) (server.Filter, error) {
		return func(logr.Logger, http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) }), nil
		}, nil
	}
	others := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the process' own") })
	for name, c := range map[string]struct {
		filter filterProvider
		path   string
		code   int
		want   string
	}{
		"the registry at /metrics":         {nil, "/metrics", http.StatusOK, "bound_total 1"},
		"the next handler at another path": {nil, "/debug/berth/queue", http.StatusOK, "the process' own"},
		"authorized requests only":         {refuses, "/metrics", http.StatusUnauthorized, "who are you?"},
	} {
		t.Run(name, func(t *testing.T) {
			filter, err := serveRegistry(registry, c.filter)(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			handler, err := filter(ctrl.Log, others)
			if err != nil {
				t.Fatal(err)
			}
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, c.path, nil))
			if response.Code != c.code || !strings.Contains(response.Body.String(), c.want) {
				t.Errorf("got %d %q, want %d %q", response.Code, response.Body, c.code, c.want)
			}
		})
	}
}

func TestReadinessNamesEachCheckThatFails(t *testing.T) {
	fails := func() error { return errors.New("not yet") }
	p := probeChecks{ready: map[string]func() error{"crds": fails, "cluster": fails, "profiles": func() error { return nil }}}
	if err := p.readiness(); err == nil || err.Error() != "cluster: not yet\ncrds: not yet" {
		t.Errorf("got %v", err)
	}
	if err := (probeChecks{}).readiness(); err != nil {
		t.Errorf("got %v without a check", err)
	}
}

func failingFactory(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return nil, errors.New("is not built")
}
