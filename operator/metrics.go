package operator

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
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
	certificates string
}

func (o *metricsOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "metrics-bind-address", ":8443", "where /metrics is served; 0 for nowhere")
	f.BoolVar(&o.secure, "metrics-secure", true, "serve /metrics by HTTPS, to those whom the API server lets get it; else by HTTP, to everybody")
	f.StringVar(&o.certificates, "metrics-cert-dir", "", "a folder with tls.crt and tls.key for --metrics-secure, read again when they change; without it the certificate is self-signed")
}

// The names of a Secret of type kubernetes.io/tls, mounted.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// validate refuses a folder that would be passed over in silence.
func (o metricsOptions) validate() error {
	if o.certificates == "" {
		return nil
	}
	if !o.secure {
		return fmt.Errorf("--metrics-cert-dir: needs --metrics-secure")
	}
	for _, file := range []string{certificateFile, keyFile} {
		if _, err := os.Stat(filepath.Join(o.certificates, file)); err != nil {
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
		CertDir: o.certificates, CertName: certificateFile, KeyName: keyFile,
		// Nobody needs HTTP/2 to scrape, and its resets have been used to attack.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos, c.MinVersion = []string{"http/1.1"}, tls.VersionTLS12 }},
	}
	if o.secure && !fault.MetricsForAll {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return options
}

// timeRequests lets the time that the API server takes be measured, which
// controller-runtime does when it is asked to.
func timeRequests() { metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency) }
