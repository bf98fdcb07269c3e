package debug

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestDumps(t *testing.T) {
	type view interface{ WriteText(io.Writer) error }
	for name, c := range map[string]struct {
		dump func(w *testEnv) view
		// text is the whole text, json are parts of the JSON.
		text string
		json []string
	}{
		"queue": {
			func(w *testEnv) view { return w.DumpQueue() },
			`3 pods in the queue at 2026-01-01T12:00:00Z, 1 Held, 1 InFlight, 1 Unschedulable; 0 events recorded for 1 pods in flight
POD          PROFILE   PLACE           SINCE                  UNTIL   ATTEMPTS   PRIORITY   REASON
shop/goes    p         InFlight        2026-01-01T12:00:00Z   -       1          0          -
shop/held    p         Held            2026-01-01T12:00:00Z   -       0          0          held: Unsupported
shop/waits   p         Unschedulable   2026-01-01T12:00:00Z   -       1          0          refused by Fit
`, []string{`"place":"Unschedulable"`, `"rejectors":["Fit"]`, `"uid":"shop/goes"`, `"held":"Unsupported"`},
		},
		"cache": {
			func(w *testEnv) view { return w.DumpCache(w.t.Context()) },
			`2 nodes and 2 pods on them at 2026-01-01T12:00:00Z, 1 of them assumed; 0 nominated
ASSUMED     NODE   UID
shop/goes   n1     shop/goes
NODE   PODS   GENERATION   REQUESTED   ALLOCATABLE
n1     2      G            cpu 1000    cpu 4000, pods 10
n2     0      G            nothing     cpu 4000, pods 10
`, []string{`"assumed":[{"namespace":"shop","name":"goes","uid":"shop/goes","node":"n1"}]`, `"requested":{"cpu":1000}`},
		},
		"cache while the loop hangs": {
			func(w *testEnv) view {
				w.DumpCache(w.t.Context())
				w.loopHangs = true
				return w.DumpCache(w.t.Context())
			},
			`2 nodes and 2 pods on them at 2026-01-01T12:00:00Z, 1 of them assumed; 0 nominated
nodes are shown as of the last scheduling cycle: the scheduling cycle did not end
ASSUMED     NODE   UID
shop/goes   n1     shop/goes
NODE   PODS   GENERATION   REQUESTED   ALLOCATABLE
n1     2      G            cpu 1000    cpu 4000, pods 10
n2     0      G            nothing     cpu 4000, pods 10
`, []string{`"stale":"the scheduling cycle did not end"`},
		},
		"generations": {
			func(w *testEnv) view { return w.DumpGenerations() },
			`1 profiles at 2026-01-01T12:00:00Z
PROFILE   GENERATION   HASH   SINCE                  REFERENCES   OLD   PENDING   ABANDONED   PAUSED
p         7            abc    2026-01-01T12:00:00Z   3            1     -         2           false
p: Odd has abandoned calls
p: filter: NodeName, Fit
p: bind: DefaultBinder
`, []string{`"hash":"abc"`, `"abandonedCalls":2`, `"filter":["NodeName","Fit"]`},
		},
		"equivalence caches": {
			func(w *testEnv) view {
				m, err := w.DumpEquivalenceCaches(w.t.Context())
				if err != nil {
					w.t.Fatal(err)
				}
				return m
			},
			`equivalence caches at 2026-01-01T12:00:00Z
PROFILE   HASH   ENABLED   CLASSES   BYTES   LIMIT   CACHED   UNCACHED   VISITED   EVALUATED   MISMATCHES
p         abc    false     0         0       0       0        0          0         0           0
`, []string{`"profile":"p"`, `"enabled":false`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.dump(newTestEnv(t))
			var text bytes.Buffer
			if err := v.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if got := withoutGenerations(text.String()); got != c.text {
				t.Errorf("text:\n%s\nwant:\n%s", got, c.text)
			}
			asJSON, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.json {
				if !strings.Contains(string(asJSON), want) {
					t.Errorf("JSON lacks %s:\n%s", want, asJSON)
				}
			}
			if strings.Contains(string(asJSON)+text.String(), "swordfish") {
				t.Error("the dump contains the message of a hold, which may be secret")
			}
		})
	}
}

// withoutGenerations replaces the generations of nodes, which depend on the process.
func withoutGenerations(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 3 && (fields[0] == "n1" || fields[0] == "n2") {
			at := strings.Index(line[7:], " "+fields[2]) + 7 + 1
			lines[i] = line[:at] + "G" + strings.Repeat(" ", len(fields[2])-1) + line[at+len(fields[2]):]
		}
	}
	return strings.Join(lines, "\n")
}

func TestDumpEquivalenceCachesFailsWhenTheLoopHangs(t *testing.T) {
	w := newTestEnv(t)
	w.loopHangs = true
	if _, err := w.DumpEquivalenceCaches(t.Context()); err == nil {
		t.Error("no error while the loop hangs")
	}
}
