package operator

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsOptions are the flags of the metrics server.
type metricsOptions struct {
	address string
	secure  bool
	// certDir is a folder; empty for a self-signed certificate.
	certDir string
}

func (o *metricsOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "metrics-bind-address", ":8443", "where /metrics is served; 0 for nowhere")
	f.BoolVar(&o.secure, "metrics-secure", true, "serve /metrics by HTTPS, to clients that the API server authorizes; else by HTTP, to everybody")
	f.StringVar(&o.certDir, "metrics-cert-dir", "", "a folder with tls.crt and tls.key for --metrics-secure, read again when they change; without it the certificate is self-signed")
}

// The keys of a Secret of type kubernetes.io/tls, as files.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// validate rejects a folder that would have no effect or lacks a file.
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

// server returns the options of the metrics server.
func (o metricsOptions) server() server.Options {
	options := server.Options{
		BindAddress: o.address, SecureServing: o.secure,
		CertDir: o.certDir, CertName: certificateFile, KeyName: keyFile,
		// Scraping does not need HTTP/2, whose stream resets have been used in attacks.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos, c.MinVersion = []string{"http/1.1"}, tls.VersionTLS12 }},
	}
	if o.secure {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if o.certDir == "" {
		selfSigned := sync.OnceValues(newSelfSignedCertificate) // at the first scrape
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) {
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return selfSigned() }
		})
	}
	return options
}

// metricsPath is where controller-runtime serves metrics.
const metricsPath = "/metrics"

// serveRegistry returns a filter for controller-runtime's metrics server that serves
// the metrics of registry; without it the server has those of the process. The filter
// authorizes requests as filter does; nil for no authorization.
func serveRegistry(registry prometheus.Gatherer, filter filterProvider) filterProvider {
	return func(config *restclient.Config, client *http.Client) (server.Filter, error) {
		inner := func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return handler, nil }
		if filter != nil {
			var err error
			if inner, err = filter(config, client); err != nil {
				return nil, err
			}
		}
		metricsHandler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
		return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
			return inner(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == metricsPath {
					metricsHandler.ServeHTTP(w, r)
					return
				}
				handler.ServeHTTP(w, r)
			}))
		}, nil
	}
}

// filterProvider is the type of server.Options.FilterProvider.
type filterProvider = func(*restclient.Config, *http.Client) (server.Filter, error)

// registerRequestLatency registers the latency of requests to the API server, which
// controller-runtime measures only when it is asked to.
func registerRequestLatency() { metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency) }
