package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/procs"
)

// counters are what a clock cannot tell, since the start of the control plane or of the side's
// process.
type counters struct {
	// Writes are the requests that schedulers make to bind pods and to say what became of them:
	// Bindings, conditions, Events, claims and explanations.
	Writes float64 `json:"writes"`
	// ReadKB and WrittenKB are the bytes that the process read and wrote, all but files over
	// connections with the API server.
	ReadKB    float64 `json:"readKB"`
	WrittenKB float64 `json:"writtenKB"`
	// Allocs and AllocatedKB are the allocations of a manager of Berth; 0 for other sides.
	Allocs      float64 `json:"allocs,omitempty"`
	AllocatedKB float64 `json:"allocatedKB,omitempty"`
}

// perPod returns what each of n pods has cost since earlier.
func (c counters) perPod(earlier counters, n int) counters {
	pods := float64(n)
	return counters{
		(c.Writes - earlier.Writes) / pods, (c.ReadKB - earlier.ReadKB) / pods, (c.WrittenKB - earlier.WrittenKB) / pods,
		(c.Allocs - earlier.Allocs) / pods, (c.AllocatedKB - earlier.AllocatedKB) / pods,
	}
}

// count reads the counters.
func (t *runner) count(ctx context.Context) (c counters, err error) {
	if c.Writes, err = t.countWrites(ctx); err != nil {
		return c, err
	}
	read, written, err := procs.IO(t.process.PID())
	if err != nil {
		return c, err
	}
	c.ReadKB, c.WrittenKB = float64(read)/1024, float64(written)/1024
	if t.manager != nil {
		var allocated float64
		c.Allocs, allocated, err = t.manager.Allocations(ctx)
		c.AllocatedKB = allocated / 1024
	}
	return c, err
}

// schedulersWrites are the resources, with subresource, that schedulers write; the load writes
// none of them.
var schedulersWrites = map[string]bool{
	"pods/binding": true, "pods/status": true, "events/": true, "resourceclaims/status": true,
	"podgroups/status": true, "schedulingdecisions/": true,
}

// countWrites returns how many requests with schedulersWrites the API server has had.
func (t *runner) countWrites(ctx context.Context) (float64, error) {
	text, err := t.client.CoreV1().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("metrics of the API server: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return 0, fmt.Errorf("metrics of the API server: %w", err)
	}
	sum := 0.0
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY":
			if schedulersWrites[labels["resource"]+"/"+labels["subresource"]] {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum, nil
}

// countEvents returns the number of Events about the load's pods.
func (t *runner) countEvents(ctx context.Context) (int, error) {
	n, err := load.CountEvents(ctx, t.client, namespace)
	if n > t.counted {
		t.counted, t.lastEventAt = n, time.Now()
	}
	return n, err
}
