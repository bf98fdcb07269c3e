package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/berthdev/berth/test/support/procs"
)

// start is the load without pods: the side starts on a cluster that exists, and binds one.
const start = "start"

// clusterSize is the number of nodes and of bound pods of --loads=start.
type clusterSize struct{ nodes, existing int }

// parseSize parses a value of --sizes.
func parseSize(text string) (size clusterSize, err error) {
	nodes, existing, _ := strings.Cut(text, ":")
	size.nodes, err = strconv.Atoi(nodes)
	if err == nil {
		size.existing, err = strconv.Atoi(existing)
	}
	if err != nil || size.nodes < 1 || size.existing < 0 {
		return size, fmt.Errorf("--sizes: must be numbers of nodes and of bound pods, such as 1000:5000, is %q", text)
	}
	return size, nil
}

// starts runs all sides on clusters of each size.
func (b *bench) starts(ctx context.Context, s shape) error {
	defer func(o options) { b.options = o }(b.options)
	var errs []error
	for _, size := range b.options.sizes {
		b.options.nodes, b.options.existing = size.nodes, size.existing
		if err := s.checkCapacity(b.options, 1); err != nil {
			return fmt.Errorf("--sizes=%d:%d: %w", size.nodes, size.existing, err)
		}
		errs = append(errs, b.startsOn(ctx, s))
	}
	b.report.compareSizes(s.name)
	return errors.Join(errs...)
}

// startsOn runs all sides on a cluster of one size.
func (b *bench) startsOn(ctx context.Context, s shape) error {
	if err := b.saveCluster(ctx, s); err != nil {
		return err
	}
	defer b.removeCluster()
	return b.rounds(ctx, s, start)
}

// finishStart sets the fields of a run that measures the start alone.
func (t *runner) finishStart(ctx context.Context, r *run) (err error) {
	r.Peak = map[string]float64{}
	if r.Peak[scheduler], err = procs.Peak(t.process.PID()); err != nil {
		return err
	}
	if t.heapURL == "" {
		return nil
	}
	r.Heap, err = t.liveHeap(ctx)
	return err
}

// liveHeap returns what is in use of the side's heap after a garbage collection, in MiB. It is
// what the runtime counts: the samples of a profile are of half a MiB each, and with some hundred
// of them the difference of two clusters is chance.
func (t *runner) liveHeap(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.heapURL+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+t.cp.Config().BearerToken)
	// kube-scheduler makes a certificate for itself; both listen on 127.0.0.1.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, errors.Join(err, fmt.Errorf("%s answers %s: %.200s", t.heapURL, response.Status, body))
	}
	return heapAlloc(body)
}

var heapAllocLine = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heapAlloc returns runtime.MemStats.HeapAlloc, in MiB, as a heap profile in text form has it.
func heapAlloc(profile []byte) (float64, error) {
	line := heapAllocLine.FindSubmatch(profile)
	if line == nil {
		return 0, errors.New("the heap profile has no line with HeapAlloc")
	}
	bytes, err := strconv.ParseFloat(string(line[1]), 64)
	return bytes / (1 << 20), err
}

// startRows has a row for each side.
func (g *group) startRows(row func(...any), names []string) {
	row("", "first bind after s", "CPU ms", "peak MiB", "live heap MiB", "runs")
	for _, n := range names {
		row(n, g.of(n, func(r run) float64 { return r.StartUp }).long(), g.of(n, startUpCPU).long(),
			g.of(n, peak).long(), g.of(n, liveHeap).long(), len(g.side(n)))
	}
}

var (
	peak     = func(r run) float64 { return r.Peak[scheduler] }
	liveHeap = func(r run) float64 { return r.Heap }
)

// compareSizes compares the starts on clusters that differ in one number with those on the
// first: what a node, or a pod, more costs of memory.
func (r *report) compareSizes(shape string) {
	var first *group
	for _, g := range r.Groups {
		switch {
		case g.Load != start || g.Shape != shape:
		case first == nil:
			first = g
		case g.Existing == first.Existing && g.Nodes != first.Nodes:
			g.checkSlopes(first, "a node", float64(g.Nodes-first.Nodes))
		case g.Nodes == first.Nodes && g.Existing != first.Existing:
			g.checkSlopes(first, "a pod", float64(g.Existing-first.Existing))
		}
	}
}

// checkSlopes compares what one more of the objects costs Berth and kube-scheduler; more is
// by how many the clusters differ.
func (g *group) checkSlopes(first *group, of string, more float64) {
	for _, m := range []struct {
		name    string
		measure func(run) float64
	}{{"peak memory", peak}, {"live heap", liveHeap}} {
		slope := func(side string) float64 {
			return 1024 * (g.of(side, m.measure).Median - first.of(side, m.measure).Median) / more
		}
		ours, theirs := slope(berth), slope(kube)
		g.Slopes = append(g.Slopes, fmt.Sprintf("%s of %s more: %s %s KiB, %s %s KiB", m.name, of, berth, digits(ours), kube, digits(theirs)))
		if theirs > 0 {
			g.Criteria = append(g.Criteria, newResult(m.name+" of "+of+" more, relative to kube-scheduler's", []float64{ours / theirs}, 0.5, true))
		}
	}
}
