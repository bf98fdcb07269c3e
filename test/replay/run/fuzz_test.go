package run_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

// The bounds of a log that is run twice: its size in bytes, and its ops.
const maxLogBytes, maxLogOps = 64 << 10, 80

// readLog reads the ops of a log. The error is that of the first invalid line; more says that
// there are more ops than are run.
func readLog(text []byte) (ops []log.Op, more bool, err error) {
	reader := log.NewReader(bytes.NewReader(text))
	for {
		op, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return ops, false, nil
		case err != nil:
			return ops, false, err
		case len(ops) == maxLogOps:
			return ops, true, nil
		}
		ops = append(ops, op)
	}
}

// generatedLog returns the first ops of a generated history with objects of every kind.
func generatedLog(f *testing.F, seed uint64) []byte {
	f.Helper()
	g := generate.NewWithDevices(seed, 3)
	scheduler, err := run.NewBerth(f.Context(), run.Config{Profile: run.DefaultProfile()})
	if err != nil {
		f.Fatal(err)
	}
	cluster, ops := run.NewCluster(scheduler), []log.Op{}
	for len(ops) < maxLogOps {
		op, more := g.Next()
		if !more {
			break
		}
		ops = append(ops, log.Op{Kind: op.Kind, Start: op.Start, Object: op.Object.DeepCopyObject().(log.Object)})
		outcome, err := cluster.Do(op)
		if err != nil {
			f.Fatal(err)
		}
		if outcome != nil {
			g.Observe(outcome)
		}
	}
	var text bytes.Buffer
	if err := log.WriteAll(&text, ops); err != nil {
		f.Fatal(err)
	}
	return text.Bytes()
}

// FuzzLog reads any text as a log. A line that is invalid is named, with its field. A log that
// is valid is written and read as the same, and with the cache each of its attempts ends as in
// the reference, without a panic.
func FuzzLog(f *testing.F) {
	for _, lines := range [][]string{
		{n1, podOp("schedule", "p", "3", ""), podOp("schedule", "q", "3", ""), podOp("delete", "p", "3", "")},
		{n1, podOp("apply", "p", "3", `},"status":{"nominatedNodeName":"n1"`), podOp("schedule", "q", "3", ""), n2, podOp("apply", "p", "3", `,"nodeName":"n2"`)},
		append(identicalNodes(8), `{"op":"schedule","start":7,"object":{"metadata":{"name":"p"}}}`, `{"op":"schedule","start":9223372036854775807,"object":{"metadata":{"name":"q"}}}`),
		{n1, `{"op":"schedule-batch","count":3,"object":{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"NaN"}}}]}}}`},
		{`{"op":"apply","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","labels":{"team":"x"}}}}`, n1, podOp("schedule", "p", "1e-9", "")},
		{`{"op":"apply","object":{"apiVersion":"v1","kind":"Binding","metadata":{"name":"b"},"target":{}}}`},
	} {
		f.Add([]byte(strings.Join(lines, "\n")))
	}
	for seed := range uint64(40) {
		if text := generatedLog(f, seed); len(text) < maxLogBytes/4 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxLogBytes {
			return
		}
		ops, more, err := readLog(text)
		if err != nil {
			checkLogError(t, err)
		}
		if len(ops) == 0 || more {
			return
		}
		checkWritten(t, ops)
		var clusters []*run.Cluster
		for _, reference := range []bool{true, false} {
			berth, err := run.NewBerth(t.Context(), run.Config{Profile: run.DefaultProfile(), Preempt: true, Explain: true, Reference: reference})
			if err != nil {
				t.Fatal(err)
			}
			clusters = append(clusters, run.NewCluster(berth))
		}
		for i, op := range ops {
			want, wantErr := do(t, clusters[0], op)
			got, gotErr := do(t, clusters[1], op)
			if diff := cmp.Diff([]string{want, wantErr}, []string{got, gotErr}); diff != "" {
				t.Fatalf("op %d, %s %T (-reference,+cache):\n%s", i+1, op.Kind, op.Object, diff)
			}
			if wantErr != "" {
				return
			}
		}
	})
}

// do applies an op and returns the line of its outcome, or the error of an impossible op.
func do(t *testing.T, cluster *run.Cluster, op log.Op) (line, failed string) {
	t.Helper()
	op.Object = op.Object.DeepCopyObject().(log.Object)
	outcome, err := cluster.Do(op)
	if err != nil {
		return "", err.Error()
	}
	if outcome == nil {
		return "", ""
	}
	if panicked := (*framework.PanicError)(nil); errors.As(outcome.Err, &panicked) {
		t.Fatalf("%v\n%s", panicked, panicked.Stack)
	}
	text, err := outcome.Line()
	if err != nil {
		t.Fatal(err)
	}
	return parsingPattern.ReplaceAllString(string(text), "$1"), ""
}

// parsingPattern matches why a selector does not parse. Of several invalid labels, the library
// names any: it goes through a map.
var parsingPattern = regexp.MustCompile(`(parsing pod|topology spread constraints): .*`)

// checkLogError checks that an error names its line and says what is wrong.
func checkLogError(t *testing.T, err error) {
	t.Helper()
	var wrong *log.Error
	if !errors.As(err, &wrong) || wrong.Line < 1 || wrong.Detail == "" {
		t.Fatalf("%T %v names no line", err, err)
	}
}

// checkWritten writes ops, which are read as the same.
func checkWritten(t *testing.T, ops []log.Op) {
	t.Helper()
	var first, second bytes.Buffer
	if err := log.WriteAll(&first, ops); err != nil {
		t.Fatal(err)
	}
	again, more, err := readLog(first.Bytes())
	if err != nil || more || len(again) != len(ops) {
		t.Fatalf("%d ops are written, %d read (%v)\n%s", len(ops), len(again), err, first.Bytes())
	}
	if err := log.WriteAll(&second, again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.String(), second.String()); diff != "" {
		t.Fatalf("written, read and written (-first,+second):\n%s", diff)
	}
}
