package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	grafana "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/berthdev/berth/test/support/controlplane"
)

const runbooks = "https://github.com/berthdev/berth/blob/main/docs/runbooks/"

// board is the dashboard, with what the tests need of it.
type board struct {
	dashboard.Dashboard
	panels []panel
}

// panel is a panel that has queries.
type panel struct {
	dashboard.Panel
	queries []grafana.Dataquery
}

// readBoard reads the dashboard as Grafana's schema has it: an unknown field is an error.
func readBoard(root string) (b board, err error) {
	text, err := os.ReadFile(filepath.Join(root, "config", "grafana", "berth.json"))
	if err != nil {
		return b, err
	}
	plugins.RegisterDefaultPlugins()
	// It returns an error without a text when nothing is wrong, and leaves the panels out.
	var strict dashboard.Dashboard
	if err := strict.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		return b, err
	}
	if err := json.Unmarshal(text, &b.Dashboard); err != nil {
		return b, err
	}
	if err := b.Dashboard.Validate(); err != nil && err.Error() != "" {
		return b, err
	}
	for _, p := range b.Panels {
		if p.Panel == nil {
			continue // a row
		}
		found := panel{Panel: *p.Panel}
		for _, target := range p.Panel.Targets {
			query, ok := target.(*grafana.Dataquery)
			if !ok {
				value, isValue := target.(grafana.Dataquery)
				if !isValue {
					return b, fmt.Errorf("%s: a query is a %T", *p.Panel.Title, target)
				}
				query = &value
			}
			found.queries = append(found.queries, *query)
		}
		b.panels = append(b.panels, found)
	}
	return b, nil
}

func mustReadBoard(t *testing.T) (b board, root string) {
	t.Helper()
	root, err := controlplane.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = readBoard(root); err != nil {
		t.Fatal(err)
	}
	return b, root
}

// interpolate returns a query as Grafana sends it. Grafana's rate interval is at least four
// scrape intervals.
func interpolate(query string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", "berth", "$profile", ".*", "$replica", ".*").Replace(query)
}

// mayBeEmpty says whether the panel says in words that there is no data.
func (p panel) mayBeEmpty() bool { return p.FieldConfig.Defaults.NoValue != nil }

func TestEveryPanelSaysWhatIsNormal(t *testing.T) {
	b, _ := mustReadBoard(t)
	titles, ids := map[string]bool{}, map[uint32]bool{}
	form := regexp.MustCompile(`^[A-Z][^\n]+\.\n\nNormal: [^\n]+\.\n\nIf not: [^\n]+\.$`)
	for _, p := range b.panels {
		title := *p.Title
		if titles[title] || ids[*p.Id] {
			t.Errorf("%s: its title or its id %d is another panel's", title, *p.Id)
		}
		titles[title], ids[*p.Id] = true, true
		if p.Description == nil || !form.MatchString(*p.Description) {
			t.Errorf("%s: its description must say what it shows, what is normal and what to do if not: %v", title, p.Description)
		}
		if p.FieldConfig.Defaults.Unit == nil {
			t.Errorf("%s: no unit", title)
		}
		if len(p.queries) == 0 {
			t.Errorf("%s: no query", title)
		}
		if p.Datasource == nil || p.Datasource.Uid == nil || *p.Datasource.Uid != "${datasource}" {
			t.Errorf("%s: its data source is not the variable", title)
		}
	}
}

func TestDescriptionsNamePanelsThatExist(t *testing.T) {
	b, _ := mustReadBoard(t)
	titles := map[string]bool{}
	for _, p := range b.Panels {
		if p.RowPanel != nil {
			titles[*p.RowPanel.Title] = true
		} else {
			titles[*p.Panel.Title] = true
		}
	}
	for _, p := range b.panels {
		for _, quoted := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(*p.Description, -1) {
			if !titles[quoted[1]] {
				t.Errorf("%s names the panel %q, which does not exist", *p.Title, quoted[1])
			}
		}
	}
}

func TestNoPanelCoversAnother(t *testing.T) {
	b, _ := mustReadBoard(t)
	type cell struct{ x, y uint32 }
	taken := map[cell]string{}
	for _, p := range b.panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[cell{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s covers %q or leaves the grid", *p.Title, other)
				}
				taken[cell{x, y}] = *p.Title
			}
		}
	}
}

func TestRowsAreQuestions(t *testing.T) {
	b, _ := mustReadBoard(t)
	for _, p := range b.Panels {
		if p.RowPanel != nil && !strings.HasSuffix(*p.RowPanel.Title, "?") {
			t.Errorf("the row %q is no question", *p.RowPanel.Title)
		}
	}
}

// others are the metrics and the labels that the queries use and Berth does not define.
var others = map[string][]string{
	"up": nil, "ALERTS": {"alertname", "alertstate"},
	"leader_election_master_status": {"name"}, "process_start_time_seconds": nil, "process_cpu_seconds_total": nil,
	"process_resident_memory_bytes": nil, "go_goroutines": nil,
	"rest_client_requests_total": {"code", "method", "host"}, "rest_client_request_duration_seconds": {"verb", "host"},
	"controller_runtime_reconcile_total": {"controller", "result"},
}

// definedMetrics returns the labels of each metric of docs/reference/metrics.md.
func definedMetrics(root string) (map[string][]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		all[row[1]] = nil
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1) {
			all[row[1]] = append(all[row[1]], label[1])
		}
	}
	return all, nil
}

// family returns the name of the metric of which a series' name is a part.
func family(name string, defined map[string][]string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if short, cut := strings.CutSuffix(name, suffix); cut {
			if _, ours := defined[short]; ours || others[short] != nil {
				return short
			}
		}
	}
	return name
}

// checkQuery says what is wrong with a query, and records the metrics that it reads.
func checkQuery(query string, defined map[string][]string, used map[string]bool) (wrong []string) {
	root, err := parser.NewParser(parser.Options{}).ParseExpr(strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(query))
	if err != nil {
		return []string{err.Error()}
	}
	known := map[string]bool{"instance": true, "le": true}
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := family(selector.Name, defined)
		names, ours := defined[name]
		if theirs, there := others[name]; there {
			names, ours = theirs, true
		}
		if !ours {
			wrong = append(wrong, fmt.Sprintf("the metric %s is not in docs/reference/metrics.md", selector.Name))
			return nil
		}
		used[name] = true
		matchers := map[string]*labels.Matcher{}
		for _, m := range selector.LabelMatchers {
			matchers[m.Name] = m
			if !slices.Contains(append([]string{"__name__", "job", "instance"}, names...), m.Name) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", name, m.Name))
			}
		}
		if m := matchers["job"]; name != "ALERTS" && (m == nil || m.Type != labels.MatchEqual || m.Value != "$job") {
			wrong = append(wrong, fmt.Sprintf("%s is not selected by $job", selector))
		}
		if m := matchers["profile"]; slices.Contains(names, "profile") && (m == nil || m.Type != labels.MatchRegexp || (m.Value != "$profile" && m.Value != ".*")) {
			wrong = append(wrong, fmt.Sprintf(`%s is not selected by $profile, or by ".*" for all`, selector))
		}
		for _, label := range names {
			known[label] = true
		}
		return nil
	})
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		var by []string
		switch node := node.(type) {
		case *parser.AggregateExpr:
			by = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				by = node.VectorMatching.MatchingLabels
			}
		}
		for _, label := range by {
			if !known[label] {
				wrong = append(wrong, "no metric of the query has the label "+label)
			}
		}
		return nil
	})
	return wrong
}

func TestCheckQuery(t *testing.T) {
	defined := map[string][]string{"berth_held_pods": {"profile", "reason"}, "berth_time_seconds": {"event"}}
	for query, want := range map[string]string{
		`sum by (reason) (berth_held_pods{job="$job",profile=~"$profile"})`: "",
		`berth_held_pods{job="$job",profile=~".*"}`:                         "",
		`rate(berth_time_seconds_bucket{job="$job"}[$__rate_interval])`:     "",
		`sum(`:                        "unclosed left parenthesis",
		`berth_held_pods{job="$job"}`: "not selected by $profile",
		`berth_held_pods{job="$job",profile="$profile"}`:             "not selected by $profile",
		`berth_held_pods{profile=~"$profile"}`:                       "not selected by $job",
		`berth_time_seconds_count{job="$job",reason="x"}`:            "no label reason",
		`berth_gone{job="$job"}`:                                     "berth_gone is not in docs/reference/metrics.md",
		`sum by (plugin) (berth_time_seconds_count{job="$job"})`:     "has the label plugin",
		`up{job="$job"} unless on (event) process_x{job="$job"} > 0`: "process_x is not in",
	} {
		wrong := strings.Join(checkQuery(query, defined, map[string]bool{}), "; ")
		if (want == "") != (wrong == "") || !strings.Contains(wrong, want) {
			t.Errorf("%s: %q, want %q", query, wrong, want)
		}
	}
}

func TestQueriesAreValidAndReadKnownMetrics(t *testing.T) {
	b, root := mustReadBoard(t)
	defined, err := definedMetrics(root)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range b.panels {
		for _, q := range p.queries {
			for _, wrong := range checkQuery(q.Expr, defined, used) {
				t.Errorf("%s: %s", *p.Title, wrong)
			}
			if len(p.queries) > 1 && q.LegendFormat == nil {
				t.Errorf("%s: a query among several has no legend", *p.Title)
			}
		}
	}
	for _, a := range b.Annotations.List {
		for _, wrong := range checkQuery(*a.Expr, defined, used) {
			t.Errorf("the annotation %s: %s", a.Name, wrong)
		}
	}

	text, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "## What the dashboard leaves out\n")
	if !found {
		t.Fatal("docs/metrics.md has no list of what the dashboard leaves out")
	}
	list, _, _ = strings.Cut(list, "\n## ")
	leftOut := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\|([^|]*)\|`).FindAllStringSubmatch(list, -1) {
		for _, name := range regexp.MustCompile("`((?:berth|scheduler)_[a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			leftOut[name[1]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		switch {
		case used[name] && leftOut[name]:
			t.Errorf("%s is on the dashboard, and docs/metrics.md says that it is left out", name)
		case !used[name] && !leftOut[name]:
			t.Errorf("%s is neither on the dashboard nor in docs/metrics.md among what it leaves out", name)
		}
		delete(leftOut, name)
	}
	for name := range leftOut {
		t.Errorf("docs/metrics.md says that the dashboard leaves out %s, which does not exist", name)
	}
}

// severityColors are the colors of a stat whose alert has that severity.
var severityColors = map[string]string{"critical": "red", "warning": "orange", "info": "blue"}

// statOf returns the stat that links to the page of an alert.
func (b board) statOf(alert string) (panel, error) {
	var found []panel
	for _, p := range b.panels {
		if p.Type == "stat" && slices.ContainsFunc(p.Links, func(l dashboard.DashboardLink) bool { return l.Url != nil && *l.Url == runbooks+alert+".md" }) {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return panel{}, fmt.Errorf("%d stats link to the page of %s", len(found), alert)
	}
	return found[0], nil
}

// color returns the color of a value.
func (p panel) color(value float64) (color string) {
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			color = step.Color
		}
	}
	return color
}

// stat evaluates the query of a stat.
func (p panel) stat(ctx context.Context, server *prometheus) (float64, error) {
	vector, err := server.query(ctx, interpolate(p.queries[0].Expr))
	if err != nil || len(vector) == 0 {
		return math.NaN(), err
	}
	return vector[0].F, nil
}

func TestEveryAlertHasAStatWithItsThreshold(t *testing.T) {
	b, root := mustReadBoard(t)
	alerts, err := readAlerts(filepath.Join(root, "config", "prometheus", "alerts", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		stat, err := b.statOf(a.Alert)
		if err != nil {
			t.Error(err)
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(a.Expr)
		if err != nil {
			t.Fatal(err)
		}
		threshold := 0.0
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if b, ok := node.(*parser.BinaryExpr); ok && b.Op.IsComparisonOperator() {
				if number, ok := b.RHS.(*parser.NumberLiteral); ok {
					threshold = max(threshold, number.Val)
				}
			}
			return nil
		})
		if threshold == 0 {
			threshold = 1 // what is counted is more than none
		}
		steps := stat.FieldConfig.Defaults.Thresholds.Steps
		if !slices.ContainsFunc(steps, func(s dashboard.Threshold) bool { return s.Value != nil && *s.Value == threshold }) {
			t.Errorf("%s: %s fires at %v, and its thresholds are %v", *stat.Title, a.Alert, threshold, steps)
		}
		if !slices.ContainsFunc(steps, func(s dashboard.Threshold) bool { return s.Color == severityColors[a.Labels["severity"]] }) {
			t.Errorf("%s: %s is of severity %s, and no threshold is %s", *stat.Title, a.Alert, a.Labels["severity"], severityColors[a.Labels["severity"]])
		}
	}
	for _, p := range b.panels {
		for _, link := range p.Links {
			page, ok := strings.CutPrefix(*link.Url, runbooks)
			if _, err := os.Stat(filepath.Join(root, "docs", "runbooks", page)); !ok || err != nil {
				t.Errorf("%s links to %s, which is no runbook", *p.Title, *link.Url)
			}
		}
	}
}

func TestVariables(t *testing.T) {
	b, _ := mustReadBoard(t)
	found := map[string]dashboard.VariableModel{}
	for _, v := range b.Templating.List {
		found[v.Name] = v
	}
	for _, name := range []string{"datasource", "job", "profile", "replica"} {
		if v, ok := found[name]; !ok || v.Description == nil {
			t.Errorf("the variable %s is missing or has no description", name)
		}
	}
	for _, name := range []string{"profile", "replica"} {
		v := found[name]
		if v.Multi == nil || !*v.Multi || v.IncludeAll == nil || !*v.IncludeAll || v.AllValue == nil || *v.AllValue != ".*" {
			t.Errorf("the variable %s must take several values, and All as .*", name)
		}
	}
}
