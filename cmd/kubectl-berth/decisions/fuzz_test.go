package decisions

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// FuzzPrint prints the decisions of any status in each format. A table has a line for each
// decision, and JSON and YAML have all of them.
func FuzzPrint(f *testing.F) {
	for _, text := range []string{
		`{"recentDecisions":[{"time":"2026-03-01T11:59:00Z","namespace":"shop","pod":"web","result":"Bound","node":"n17","hash":"9f3c1a2b4d","generation":6},
{"time":"2026-02-28T23:00:00Z","namespace":"shop","pod":"db","result":"Unschedulable","message":"0/5 nodes are available: 5 Insufficient cpu."}],"omittedDecisions":3}`,
		`{"recentDecisions":[{"time":null,"namespace":"","pod":"\u001b[2J","result":"","message":"a\nb\tc\u0000\u009b"},{"time":"9999-12-31T23:59:59Z","message":"` + strings.Repeat("ü ", 200) + `"}],"omittedDecisions":-1}`,
		`{}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := kubectltest.Profile("batch", 6)
		if len(text) > 8<<10 || json.Unmarshal(text, &p.Status) != nil {
			return
		}
		for _, output := range []string{"", "wide", "json", "yaml"} {
			var printed strings.Builder
			o := &options{
				Env:    verb.Env{IOStreams: genericiooptions.IOStreams{Out: &printed}, Now: func() time.Time { return kubectltest.Now }},
				output: output, cluster: &cluster.Cluster{},
			}
			all := o.entries(p)
			if err := o.printer()(all...); err != nil {
				if _, jsonErr := json.Marshal(all); jsonErr != nil || output == "yaml" && strings.Contains(err.Error(), "control characters") {
					continue // as kubectl: JSON does not have every time, and YAML no control characters of C1
				}
				t.Fatal(err)
			}
			checkPrinted(t, output, printed.String(), all)
			_ = omittedMessage(p)
		}
	})
}

func checkPrinted(t *testing.T, output, printed string, all []entry) {
	t.Helper()
	if len(all) != 0 && (output == "" || output == "wide") {
		if n := strings.Count(printed, "\n"); n < len(all)+1 {
			t.Fatalf("%d lines of %d decisions:\n%s", n, len(all), printed)
		}
		if strings.Contains(printed, "\x1b") {
			t.Fatalf("a terminal does not show %q as it is", printed)
		}
		return
	}
	var again []v1alpha1.RecentDecision
	switch output {
	case "json":
		if err := json.Unmarshal([]byte(printed), &again); err != nil || len(again) != len(all) {
			t.Fatalf("%d decisions of %d (%v):\n%s", len(again), len(all), err, printed)
		}
	case "yaml":
		if err := yaml.Unmarshal([]byte(printed), &again); err != nil || len(again) != len(all) {
			t.Fatalf("%d decisions of %d (%v):\n%s", len(again), len(all), err, printed)
		}
	}
}
