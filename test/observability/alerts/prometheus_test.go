package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// step is the scrape interval, as in the ServiceMonitor.
const step = 30 * time.Second

// prometheus stores scrapes and answers queries about them. It has a time of its own: scrapes
// are a step apart, however soon they follow each other.
type prometheus struct {
	engine *promql.Engine
	now    time.Time
	series map[string]*series
}

// series has the samples of one series, oldest first.
type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newPrometheus() *prometheus {
	return &prometheus{
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 10e6, Timeout: time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})}),
		now:    time.Now(), series: map[string]*series{},
	}
}

// scraped stores what instance returned, a step after the last scrape; where it did not
// answer, text is nil.
func (p *prometheus) scraped(instance string, text []byte) error {
	p.now = p.now.Add(step)
	return p.store(instance, text)
}

// store is scraped without a step: for a test that moves the time.
func (p *prometheus) store(instance string, text []byte) error {
	seen := map[string]bool{}
	target := map[string]string{"job": "berth", "namespace": "berth-system", "instance": instance}
	up := 0.0
	if text != nil {
		up = 1
		if err := parse(text, func(l labels.Labels, f float64) { seen[p.add(l, target, f)] = true }); err != nil {
			return err
		}
	}
	seen[p.add(labels.FromStrings("__name__", "up"), target, up)] = true
	for key, s := range p.series {
		last := s.samples[len(s.samples)-1].F()
		if s.labels.Get("instance") == instance && !seen[key] && !value.IsStaleNaN(last) {
			// Prometheus marks a series as stale that is missing from a scrape.
			s.samples = append(s.samples, sample{p.now.UnixMilli(), math.Float64frombits(value.StaleNaN)})
		}
	}
	return nil
}

// add adds a sample and returns the key of its series.
func (p *prometheus) add(l labels.Labels, target map[string]string, f float64) string {
	b := labels.NewBuilder(l)
	for name, of := range target {
		b.Set(name, of)
	}
	l = b.Labels()
	key := l.String()
	if p.series[key] == nil {
		p.series[key] = &series{labels: l}
	}
	p.series[key].samples = append(p.series[key].samples, sample{p.now.UnixMilli(), f})
	return key
}

// parse calls take for each sample of a scrape.
func parse(text []byte, take func(labels.Labels, float64)) error {
	scrape := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for {
		entry, err := scrape.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("what was scraped cannot be read: %w", err)
		}
		if entry == textparse.EntrySeries {
			_, _, f := scrape.Series()
			var l labels.Labels
			scrape.Labels(&l)
			take(l, f)
		}
	}
}

// query evaluates a query now.
func (p *prometheus) query(ctx context.Context, query string) (promql.Vector, error) {
	q, err := p.engine.NewInstantQuery(ctx, p, nil, query, p.now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", query, result.Err)
	}
	vector, err := result.Vector()
	return slices.Clone(vector), err
}

// Querier makes p a storage.Queryable.
func (p *prometheus) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{at: -1}
		for _, s := range p.series {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
				set.all = append(set.all, storage.NewListSeries(s.labels, between(s.samples, from, to)))
			}
		}
		slices.SortFunc(set.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
		return set
	}}, nil
}

func between(samples []chunks.Sample, from, to int64) []chunks.Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s chunks.Sample) bool { return s.T() < from || s.T() > to })
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool {
	s.at++
	return s.at < len(s.all)
}
func (s *seriesSet) At() storage.Series                { return s.all[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a value at a time, in milliseconds since the epoch.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// alert is a rule with the times since which it has been true, by series.
type alert struct {
	rulefmt.Rule
	since map[string]time.Time
}

// readAlerts reads the rules of a PrometheusRule as Prometheus does.
func readAlerts(path string) (all []*alert, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rule struct{ Spec json.RawMessage }
	if err := yaml.Unmarshal(text, &rule); err != nil {
		return nil, err
	}
	groups, errs := rulefmt.Parse(rule.Spec, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", path, errors.Join(errs...))
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all = append(all, &alert{Rule: rule, since: map[string]time.Time{}})
		}
	}
	return all, nil
}

// evaluate evaluates the rule now, as is done after each scrape.
func (a *alert) evaluate(ctx context.Context, p *prometheus) error {
	vector, err := p.query(ctx, a.Expr)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Alert, err)
	}
	holds := map[string]time.Time{}
	for _, sample := range vector {
		key := sample.Metric.String()
		if since, before := a.since[key]; before {
			holds[key] = since
		} else {
			holds[key] = p.now
		}
	}
	a.since = holds
	return nil
}

// firing returns the series for which the rule has been true for long enough.
func (a *alert) firing(now time.Time) (series []string) {
	for _, key := range slices.Sorted(maps.Keys(a.since)) {
		if now.Sub(a.since[key]) >= time.Duration(a.For) {
			series = append(series, key)
		}
	}
	return series
}
