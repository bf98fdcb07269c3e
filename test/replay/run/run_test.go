package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/replay/run"
)

const (
	n1 = `{"op":"apply","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"9"}}}}`
	n2 = `{"op":"apply","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"},"status":{"allocatable":{"cpu":"2","memory":"8Gi","pods":"9"}}}}`
)

// podOp is the line of an op on a pod that requests cpus; more continues its spec and object.
func podOp(op, name, cpus, more string) string {
	return `{"op":"` + op + `","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name +
		`"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + cpus + `"}}}]` + more + `}}}`
}

// identicalNodes are the lines of n nodes that differ in their names.
func identicalNodes(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"op":"apply","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%03d"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"9"}}}}`, i))
	}
	return lines
}

// replay runs the lines and returns what was printed to stdout and stderr.
func replay(t *testing.T, lines []string, flags ...string) (out, stderr string) {
	t.Helper()
	var printed, failed strings.Builder
	streams := run.Streams{In: strings.NewReader(strings.Join(lines, "\n")), Out: &printed, Err: &failed}
	code := run.Command("replay", append(flags, "-"), streams, run.OpenBerth)
	if (code == 0) != (failed.Len() == 0) {
		t.Errorf("exit code %d with %q on stderr", code, failed.String())
	}
	return printed.String(), failed.String()
}

func TestDecisionsFollowTheLog(t *testing.T) {
	tests := map[string]struct {
		lines []string
		want  []string
	}{
		"a cluster without nodes refuses every pod": {
			lines: []string{podOp("schedule", "p", "1", "")},
			want:  []string{`{"pod":"default/p","node":"","evaluated":0,"feasible":0,"message":"no nodes available to schedule pods"}`},
		},
		"an assumed pod uses resources": {
			lines: []string{n1, podOp("schedule", "p", "3", ""), podOp("schedule", "q", "3", "")},
			want: []string{
				`{"pod":"default/p","node":"n1","evaluated":1,"feasible":1}`,
				`{"pod":"default/q","node":"","evaluated":0,"feasible":0,"message":"0/1 nodes are available: 1 Insufficient cpu."}`,
			},
		},
		"a deleted pod frees its resources, assumed or bound": {
			lines: []string{n1, podOp("schedule", "p", "3", ""), podOp("delete", "p", "3", ""), podOp("apply", "r", "3", `,"nodeName":"n1"`),
				podOp("delete", "r", "3", ""), podOp("schedule", "q", "3", "")},
			want: []string{
				`{"pod":"default/p","node":"n1","evaluated":1,"feasible":1}`,
				`{"pod":"default/q","node":"n1","evaluated":1,"feasible":1}`,
			},
		},
		"a nominated pod reserves resources until it is bound": {
			lines: []string{n1, podOp("apply", "p", "3", `},"status":{"nominatedNodeName":"n1"`), podOp("schedule", "q", "3", ""), n2,
				podOp("apply", "p", "3", `,"nodeName":"n2"`), podOp("schedule", "q", "3", "")},
			want: []string{
				`{"pod":"default/q","node":"","evaluated":0,"feasible":0,"message":"0/1 nodes are available: 1 Insufficient cpu."}`,
				`{"pod":"default/q","node":"n1","evaluated":2,"feasible":1}`,
			},
		},
		"a search starts at the given index, else where the last one ended": {
			lines: append(identicalNodes(300), `{"op":"schedule","start":7,"object":{"metadata":{"name":"p"}}}`, `{"op":"schedule","object":{"metadata":{"name":"q"}}}`,
				`{"op":"schedule","start":7,"object":{"metadata":{"name":"r"}}}`),
			want: []string{
				`{"pod":"default/p","node":"n007","evaluated":144,"feasible":144}`,
				`{"pod":"default/q","node":"n151","evaluated":144,"feasible":144}`,
				`{"pod":"default/r","node":"n007","evaluated":144,"feasible":144}`,
			},
		},
		"objects that only plugins read are accepted": {
			lines: []string{`{"op":"apply","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}}`,
				`{"op":"delete","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}}`, n1, podOp("schedule", "p", "1", "")},
			want: []string{`{"pod":"default/p","node":"n1","evaluated":1,"feasible":1}`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, stderr := replay(t, test.lines)
			if diff := cmp.Diff(strings.Join(test.want, "\n"), strings.TrimSpace(out)); diff != "" || stderr != "" {
				t.Errorf("decisions (-want,+got):\n%s%s", diff, stderr)
			}
		})
	}
}

func TestAnImpossibleLogIsRefused(t *testing.T) {
	tests := map[string]struct {
		lines []string
		want  string
	}{
		"a pod is scheduled twice": {
			lines: []string{n1, podOp("schedule", "p", "1", ""), podOp("schedule", "p", "1", "")},
			want:  `line 3: object.metadata.uid: must be new, is "default/p": that pod is on node n1 already`,
		},
		"a bound pod changes its node": {
			lines: []string{n1, n2, podOp("apply", "p", "1", `,"nodeName":"n1"`), podOp("apply", "p", "1", `,"nodeName":"n2"`)},
			want:  `line 4: object.spec.nodeName: must be "n1", where the pod is, is "n2": a pod does not move`,
		},
		"the log is empty": {
			want: "the log is empty",
		},
		"no op schedules a pod": {
			lines: []string{n1, podOp("apply", "p", "1", `,"nodeName":"n1"`)},
			want:  "the log schedules nothing: it has 2 lines, and none with the op schedule",
		},
		"a kind that no scheduler reads": {
			lines: []string{`{"op":"apply","object":{"apiVersion":"v1","kind":"Binding","metadata":{"name":"b"},"target":{}}}`},
			want:  "line 1: object.kind: the scheduler reads no objects of kind Binding",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, stderr := replay(t, test.lines)
			if want := "replay: -: " + test.want + "\n"; stderr != want {
				t.Errorf("stderr:\n got %swant %s", stderr, want)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	lines := []string{n1, n2, podOp("schedule", "p", "1", "")}
	profile := filepath.Join(t.TempDir(), "profile.yaml")
	write := func(text string) {
		if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n"
	const packed = "---\napiVersion: berth.dev/v1alpha1\nkind: PluginConfig\nmetadata: {name: packed}\n" +
		"spec: {plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}\n"

	write("# Only how full a node's CPUs are counts.\n" + head + "spec:\n  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}\n" +
		"  pluginConfig: [{name: NodeResourcesFit, configRef: {name: packed}}]\n" + packed)
	out, stderr := replay(t, lines, "--profile", profile, "--explain")
	want := `{"pod":"default/p","node":"n2","evaluated":2,"feasible":2,"scores":{"n1":{"NodeResourcesFit":25},"n2":{"NodeResourcesFit":50}}}` + "\n"
	if diff := cmp.Diff(want, out+stderr); diff != "" {
		t.Errorf("with --profile and --explain (-want,+got):\n%s", diff)
	}

	write(head + "spec: {state: Gone}\n")
	if _, stderr := replay(t, lines, "--profile", profile); !strings.Contains(stderr, "profile batch: spec.state: must be Active or Paused") {
		t.Errorf("with a profile that does not compile: %s", stderr)
	}
	write(head + "specs: {}\n")
	if _, stderr := replay(t, lines, "--profile", profile); !strings.Contains(stderr, `document 1: `) || !strings.Contains(stderr, `unknown field "specs"`) {
		t.Errorf("with a profile that does not parse: %s", stderr)
	}
}

func TestAPreemptionNamesItsVictimsAndNominatesThePod(t *testing.T) {
	budget := `{"op":"apply","object":{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b","namespace":"default"},` +
		`"spec":{"selector":{"matchLabels":{"app":"a"}}}}}`
	kept := `{"op":"apply","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kept","labels":{"app":"a"}},"spec":{"nodeName":"n2",` +
		`"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}}`
	lines := []string{n1, n2, budget, kept,
		podOp("apply", "low", "3", `,"nodeName":"n1"`), podOp("apply", "mid", "1", `,"nodeName":"n1","priority":5`),
		podOp("schedule", "big", "2", `,"priority":9`), podOp("schedule", "same", "3", ""), podOp("schedule", "never", "2", `,"priority":9,"preemptionPolicy":"Never"`),
		podOp("delete", "low", "3", ""), podOp("schedule", "small", "2", ""), podOp("schedule", "big", "2", `,"priority":9`)}
	const helpless = ` preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.`
	want := []string{
		`{"pod":"default/big","node":"","evaluated":0,"feasible":0,"message":"0/2 nodes are available: 2 Insufficient cpu. ` +
			`preemption: found a potential placement for pod on node n1, preempting 1 victims","nominated":"n1","victims":["default/low"]}`,
		`{"pod":"default/same","node":"","evaluated":0,"feasible":0,"message":"0/2 nodes are available: 2 Insufficient cpu. preemption: ` +
			`0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."}`,
		`{"pod":"default/never","node":"","evaluated":0,"feasible":0,"message":"0/2 nodes are available: 2 Insufficient cpu. ` +
			`preemption: not eligible due to preemptionPolicy=Never."}`,
		`{"pod":"default/small","node":"","evaluated":0,"feasible":0,"message":"0/2 nodes are available: 2 Insufficient cpu.` + helpless + `"}`,
		`{"pod":"default/big","node":"n1","evaluated":2,"feasible":1}`,
	}
	out, stderr := replay(t, lines, "--preempt")
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.TrimSpace(out)); diff != "" || stderr != "" {
		t.Errorf("decisions (-want,+got):\n%s%s", diff, stderr)
	}
	out, _ = replay(t, lines)
	if strings.Contains(out, "preemption") || strings.Contains(out, "victims") {
		t.Errorf("without --preempt no pod may be preempted:\n%s", out)
	}
}

func TestABenchHashesTheDecisions(t *testing.T) {
	lines := []string{n1, n2, podOp("schedule", "p", "1", ""), podOp("schedule", "q", "5", ""), podOp("delete", "p", "1", "")}
	first, stderr := replay(t, lines, "--bench")
	for _, part := range []string{`"pods":2`, `"us_per_pod":`, `"allocs_per_pod":`, `"bytes_per_pod":`, `"sha256":"`} {
		if strings.Count(first, part) != 1 || strings.Count(first, "\n") != 1 {
			t.Fatalf("the bench's line must contain %s, is %s%s", part, first, stderr)
		}
	}
	hash := func(out string) string { return out[strings.Index(out, `"sha256"`):] }
	again, _ := replay(t, lines, "--bench")
	if hash(first) != hash(again) {
		t.Errorf("the same log has two hashes: %s and %s", hash(first), hash(again))
	}
	other, _ := replay(t, lines[1:], "--bench")
	if hash(first) == hash(other) {
		t.Errorf("other decisions have the same hash, %s", hash(other))
	}
}

func TestAProfileWithExtendersIsReplayedWithoutThem(t *testing.T) {
	authority, _, err := cert.GenerateSelfSignedCertKey("authority.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	profile := run.DefaultProfile()
	profile.APIVersion, profile.Kind = v1alpha1.GroupVersion.String(), "SchedulingProfile"
	profile.Spec.Extenders = []v1alpha1.Extender{{
		Name: "racks", URL: "https://racks.example/v1", Verbs: v1alpha1.ExtenderVerbs{Filter: "filter"}, TLS: v1alpha1.ExtenderTLS{CABundle: authority},
	}}
	text, err := yaml.Marshal(profile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut strings.Builder
	streams := run.Streams{In: strings.NewReader(n1 + "\n" + podOp("schedule", "p", "1", "")), Out: &out, Err: &errOut}
	code := run.Command("replay", []string{"--profile", file, "-"}, streams, run.OpenBerth)
	const note = "note: profile default-scheduler has extenders (1), and a replay does not call them: decisions may differ\n"
	if code != 0 || errOut.String() != note || !strings.Contains(out.String(), `"node":"n1"`) {
		t.Errorf("exit code %d, %q and %q, want a decision and %q", code, out.String(), errOut.String(), note)
	}
}
