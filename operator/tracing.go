package operator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
)

// tracingOptions are the flags of tracing, with the meaning of the fields of
// Kubernetes' TracingConfiguration.
type tracingOptions struct {
	// endpoint is host:port of an OTLP receiver for gRPC; empty when nothing is traced.
	endpoint string
	// perMillion is how many attempts in a million are traced; rateSet says that the
	// flag was set.
	perMillion int32
	rateSet    bool
}

// million is the rate at which every attempt is traced.
const million = 1_000_000

const (
	endpointFlag = "tracing-endpoint"
	rateFlag     = "tracing-sampling-rate-per-million"
)

func (o *tracingOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, endpointFlag, "", "host:port of the OpenTelemetry collector that is sent traces of attempts, by OTLP over gRPC without TLS; empty for none")
	f.Int32Var(&o.perMillion, rateFlag, 0, "how many attempts in a million are traced; needs --tracing-endpoint")
}

// validate rejects flags of which no trace would come, except for an explicit rate of
// 0.
func (o tracingOptions) validate() error {
	if o.perMillion < 0 || o.perMillion > million {
		return fmt.Errorf("--%s: must be between 0 and %d, is %d", rateFlag, million, o.perMillion)
	}
	if o.endpoint == "" {
		if o.perMillion > 0 {
			return fmt.Errorf("--%s: needs --%s", rateFlag, endpointFlag)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(o.endpoint)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 || host == "" {
		return fmt.Errorf("--%s: must be host:port, without a scheme, such as localhost:4317, is %q", endpointFlag, o.endpoint)
	}
	if !o.rateSet {
		return fmt.Errorf("--%s: needs --%s, the attempts in a million that are traced: %d for all", endpointFlag, rateFlag, million)
	}
	return nil
}

// traces exports traces in the background. A collector that does not receive them
// delays nothing; traces beyond the exporter's buffer are dropped.
type traces struct {
	tracing.TracerProvider
	// version is Berth's version.
	version string
	// onLost is called with the error when traces were lost at shutdown.
	onLost func(error)
}

// start starts the export of traces from host by this version of Berth; it returns nil
// when nothing is traced. OpenTelemetry reports traces that are lost later to the
// process' error handler, which the command sets.
func (o tracingOptions) start(ctx context.Context, host, version string, log logr.Logger) (*traces, error) {
	if o.endpoint == "" {
		return nil, nil
	}
	config := &tracingapi.TracingConfiguration{Endpoint: &o.endpoint, SamplingRatePerMillion: &o.perMillion}
	provider, err := tracing.NewProvider(ctx, config, nil, []resource.Option{
		resource.WithAttributes(semconv.ServiceName("berth"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(host)),
		resource.WithFromEnv(),
	})
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", endpointFlag, err)
	}
	log.WithName("tracing").Info("Sending traces", "endpoint", o.endpoint, "attemptsPerMillion", o.perMillion)
	return &traces{provider, version, func(err error) { logLostTraces(log, o.endpoint, err) }}, nil
}

// logLostTraces logs that the collector at endpoint did not receive traces.
func logLostTraces(log logr.Logger, endpoint string, err error) {
	log.WithName("tracing").Info("Traces were lost", "endpoint", endpoint, "error", err.Error())
}

// tracer returns the tracer of the scheduler; nil when nothing is traced.
func (t *traces) tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.Tracer("github.com/berthdev/berth/scheduler", trace.WithInstrumentationVersion(t.version))
}

// wrap makes each request with config that belongs to a traced attempt a span, and
// sends the trace context to the API server.
func (t *traces) wrap(config *restclient.Config) {
	if t == nil {
		return
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(next,
			otelhttp.WithTracerProvider(t), otelhttp.WithPropagators(tracing.Propagators()),
			otelhttp.WithFilter(func(r *http.Request) bool { return trace.SpanContextFromContext(r.Context()).IsSampled() }),
		)
	})
}

// close sends the remaining traces until ctx ends.
func (t *traces) close(ctx context.Context) {
	if t == nil {
		return
	}
	if err := t.Shutdown(ctx); err != nil {
		t.onLost(fmt.Errorf("at shutdown: %w", err))
	}
}
