package operator

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berthdev/berth/scheduler/fault"
)

// metricsOptions are how metrics are served, and to whom.
type metricsOptions struct {
	address string
	secure  bool
	// certificates is a folder; empty: the certificate is self-signed.
	certDir string
}

func (o *metricsOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "metrics-bind-address", ":8443", "where /metrics is served; 0 for nowhere")
	f.BoolVar(&o.secure, "metrics-secure", true, "serve /metrics by HTTPS, to those whom the API server lets get it; else by HTTP, to everybody")
	f.StringVar(&o.certDir, "metrics-cert-dir", "", "a folder with tls.crt and tls.key for --metrics-secure, read again when they change; without it the certificate is self-signed")
}

// The names of a Secret of type kubernetes.io/tls, mounted.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// validate refuses a folder that would be passed over in silence.
func (o metricsOptions) validate() error {
	if o.certDir == "" {
		return nil
	}
	if !o.secure {
		return fmt.Errorf("--metrics-cert-dir: needs --metrics-secure")
	}
	for _, file := range []string{certificateFile, keyFile} {
		if _, err := os.Stat(filepath.Join(o.certDir, file)); err != nil {
			return fmt.Errorf("--metrics-cert-dir: must hold %s and %s: %w", certificateFile, keyFile, err)
		}
	}
	return nil
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create,roleName=metrics-auth-role
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create,roleName=metrics-auth-role

// server is how the manager serves them.
func (o metricsOptions) server() server.Options {
	options := server.Options{
		BindAddress: o.address, SecureServing: o.secure,
		CertDir: o.certDir, CertName: certificateFile, KeyName: keyFile,
		// Nobody needs HTTP/2 to scrape, and its resets have been used to attack.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos, c.MinVersion = []string{"http/1.1"}, tls.VersionTLS12 }},
	}
	if o.secure && !fault.MetricsForAll {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// metricsPath is where controller-runtime serves metrics.
const metricsPath = "/metrics"

// gatherFrom returns a filter of controller-runtime's metrics server that serves
// registry's metrics: without it the server has those of the process. filter is applied
// to what is served; nil for none.
func serveRegistry(registry prometheus.Gatherer, filter filterProvider) filterProvider {
	return func(config *restclient.Config, client *http.Client) (server.Filter, error) {
		inner := func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return handler, nil }
		if filter != nil {
			var err error
			if inner, err = filter(config, client); err != nil {
				return nil, err
			}
		}
		own := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
		return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
			return inner(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == metricsPath {
					own.ServeHTTP(w, r)
					return
				}
				handler.ServeHTTP(w, r)
			}))
		}, nil
	}
}

// filterProvider is what server.Options has.
type filterProvider = func(*restclient.Config, *http.Client) (server.Filter, error)

// timeRequests lets the time that the API server takes be measured, which
// controller-runtime does when it is asked to.
func registerRequestLatency() { metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency) }
