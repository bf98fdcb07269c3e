package operator

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	restclient "k8s.io/client-go/rest"
)

func TestFlagsOfTracing(t *testing.T) {
	for flags, want := range map[string]string{
		"": "",
		"--tracing-endpoint=collector:4317 --tracing-sampling-rate-per-million=1000000": "",
		"--tracing-endpoint=[::1]:4317 --tracing-sampling-rate-per-million=0":           "",
		"--tracing-sampling-rate-per-million=0":                                         "",
		"--tracing-endpoint=collector:4317":                                             "--tracing-endpoint: needs --tracing-sampling-rate-per-million, the attempts in a million that are traced: 1000000 for all",
		"--tracing-sampling-rate-per-million=1":                                         "--tracing-sampling-rate-per-million: needs --tracing-endpoint",
		"--tracing-endpoint=c:1 --tracing-sampling-rate-per-million=-1":                 "--tracing-sampling-rate-per-million: must be between 0 and 1000000, is -1",
		"--tracing-endpoint=c:1 --tracing-sampling-rate-per-million=1000001":            "--tracing-sampling-rate-per-million: must be between 0 and 1000000, is 1000001",
		"--tracing-sampling-rate-per-million=half":                                      `invalid argument "half" for "--tracing-sampling-rate-per-million" flag`,
		"--tracing-endpoint=http://c:4317 --tracing-sampling-rate-per-million=1":        `--tracing-endpoint: must be host:port, without a scheme, such as localhost:4317, is "http://c:4317"`,
		"--tracing-endpoint=collector --tracing-sampling-rate-per-million=1":            `--tracing-endpoint: must be host:port`,
		"--tracing-endpoint=:4317 --tracing-sampling-rate-per-million=1":                `--tracing-endpoint: must be host:port`,
		"--tracing-endpoint=c:0 --tracing-sampling-rate-per-million=1":                  `--tracing-endpoint: must be host:port`,
		"--tracing-endpoint=c:70000 --tracing-sampling-rate-per-million=1":              `--tracing-endpoint: must be host:port`,
	} {
		_, err := parseFlags(strings.Fields(flags))
		if ok := err == nil && want == "" || err != nil && want != "" && strings.HasPrefix(err.Error(), want); !ok {
			t.Errorf("%q: %v, want %q", flags, err, want)
		}
	}
}

func TestNothingIsTracedByDefault(t *testing.T) {
	o, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	traced, err := o.tracing.start(t.Context(), "host", "v1.2.3", logr.Discard())
	if err != nil || traced != nil || traced.tracer() != nil {
		t.Errorf("%v, %v", traced, err)
	}
	config := &restclient.Config{}
	traced.wrap(config)
	if config.WrapTransport != nil {
		t.Error("requests are wrapped")
	}
	traced.close(t.Context())
}

func TestRequestsOfATracedAttemptCarryItsContext(t *testing.T) {
	var header string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header.Get("Traceparent") }))
	defer server.Close()
	for name, c := range map[string]struct {
		sampler sdk.Sampler
		spans   int
	}{
		"a traced attempt":              {sdk.AlwaysSample(), 2},
		"an attempt that is not traced": {sdk.NeverSample(), 0},
		"no attempt":                    {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, exporter, sampler := t.Context(), tracetest.NewInMemoryExporter(), c.sampler
			if sampler == nil {
				sampler = sdk.AlwaysSample()
			}
			provider := &traces{TracerProvider: sdk.NewTracerProvider(sdk.WithSampler(sampler), sdk.WithSyncer(exporter))}
			config := &restclient.Config{}
			provider.wrap(config)
			client, err := restclient.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.sampler != nil {
				attempt, span := provider.tracer().Start(ctx, "Schedule")
				defer span.End()
				if ctx = attempt; c.spans > 0 {
					want = span.SpanContext().TraceID().String()
				}
			}
			header = ""
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			trace.SpanFromContext(ctx).End()
			if n := len(exporter.GetSpans()); !strings.Contains(header, want) || (want == "") != (header == "") || n != c.spans {
				t.Errorf("the header is %q, want %q; %d spans, want %d", header, want, n, c.spans)
			}
		})
	}
}

func TestACollectorThatHangsDoesNotDelayShutdown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // nothing accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	o := tracingOptions{endpoint: listener.Addr().String(), perMillion: million, rateSet: true}
	traced, err := o.start(t.Context(), "host", "v1.2.3", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 { // more than the exporter buffers
		_, span := traced.tracer().Start(t.Context(), "Schedule")
		span.End()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	traced.close(ctx)
}
