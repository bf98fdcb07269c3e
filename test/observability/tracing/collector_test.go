//go:build tracing

package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/berthdev/berth/test/support/controlplane"
)

// pipeline is the Collector's configuration; the address and the file are formatted into it.
const pipeline = `yaml:
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
exporters: {file: {path: %q, flush_interval: 100ms}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [file]}}
  telemetry: {metrics: {level: none}}
`

// collector is a running Collector.
type collector struct {
	*controlplane.Process
	// address is where it receives; file is its output.
	address, file string
}

// startCollector starts the Collector at path, with its output in dir, and waits until it
// accepts connections.
func startCollector(ctx context.Context, cp *controlplane.ControlPlane, path, dir string) (*collector, error) {
	free, err := controlplane.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	c := &collector{address: free[0], file: filepath.Join(dir, "traces.jsonl")}
	if c.Process, err = cp.Run(path, "--config", fmt.Sprintf(pipeline, c.address, c.file)); err != nil {
		return nil, err
	}
	return c, c.Until(ctx, func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
}

// span is a collected span.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Start                               nanoseconds `json:"startTimeUnixNano"`
	End                                 nanoseconds `json:"endTimeUnixNano"`
	Attributes                          attributes
	// Service is the service.name of its resource.
	Service string `json:"-"`
}

// nanoseconds is a time in nanoseconds since the epoch.
type nanoseconds struct{ time.Time }

// UnmarshalJSON reads a number, which OTLP writes as a string.
func (n *nanoseconds) UnmarshalJSON(text []byte) error {
	since, err := strconv.ParseInt(string(bytes.Trim(text, `"`)), 10, 64)
	n.Time = time.Unix(0, since)
	return err
}

// attributes are values as texts, by key.
type attributes map[string]string

// UnmarshalJSON reads a list of keys and values; each value is keyed by its type.
func (a *attributes) UnmarshalJSON(text []byte) error {
	var list []struct {
		Key   string
		Value map[string]any
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*a = attributes{}
	for _, entry := range list {
		for _, value := range entry.Value {
			(*a)[entry.Key] = fmt.Sprint(value)
		}
	}
	return nil
}

// read returns the spans in the file: one batch a line, the last of which may be incomplete.
func (c *collector) read() (spans []span, err error) {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
		var batch struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes attributes }
				ScopeSpans []struct{ Spans []span }
			}
		}
		if err := json.Unmarshal(line, &batch); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		for _, resource := range batch.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					s.Service = resource.Resource.Attributes["service.name"]
					spans = append(spans, s)
				}
			}
		}
	}
	return spans, nil
}
