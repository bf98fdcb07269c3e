package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// alert is a rule, and since when it has held for which series.
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

// evaluate asks whether the rule holds now, as is done after each scrape.
func (a *alert) evaluate(ctx context.Context, p *prometheus) error {
	vector, err := p.ask(ctx, a.Expr)
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

// firing are the series for which the rule has held for long enough.
func (a *alert) firing(now time.Time) (series []string) {
	for _, key := range slices.Sorted(maps.Keys(a.since)) {
		if now.Sub(a.since[key]) >= time.Duration(a.For) {
			series = append(series, key)
		}
	}
	return series
}
