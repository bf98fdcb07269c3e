package generate_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/log"
	"github.com/berthdev/berth/test/replay/run"
)

// played is a generated history as Berth schedules it: what happened, and what
// was decided.
func played(t *testing.T, seed uint64) (ops []log.Op, lines string) {
	t.Helper()
	g := generate.New(seed, 60)
	scheduler, err := run.OpenBerth(t.Context(), g.Config())
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	world := run.NewWorld(scheduler)
	var out bytes.Buffer
	for {
		op, ok := g.Next()
		if !ok {
			return ops, out.String()
		}
		ops = append(ops, op)
		outcome, err := world.Do(op)
		if err != nil {
			t.Fatalf("seed %d: a cluster cannot do op %d: %v", seed, len(ops), err)
		}
		if outcome == nil {
			continue
		}
		g.Tell(outcome)
		line, err := outcome.Line()
		if err != nil {
			t.Fatal(err)
		}
		out.Write(line)
	}
}

func TestOneSeedIsOneHistory(t *testing.T) {
	for seed := range uint64(5) {
		ops, lines := played(t, seed)
		again, linesAgain := played(t, seed)
		if diff := cmp.Diff(ops, again); diff != "" {
			t.Errorf("seed %d: the second history differs (-first,+second):\n%s", seed, diff)
		}
		if diff := cmp.Diff(lines, linesAgain); diff != "" {
			t.Errorf("seed %d: the second time was decided differently (-first,+second):\n%s", seed, diff)
		}
	}
}

// A history that is kept as a case must be the one that was found.
func TestAHistorySurvivesBeingWritten(t *testing.T) {
	ops, _ := played(t, 7)
	ops = inLogs(ops)
	var file bytes.Buffer
	if err := log.WriteAll(&file, ops); err != nil {
		t.Fatal(err)
	}
	read, err := log.ReadAll(&file)
	if err != nil {
		t.Fatal(err)
	}
	ignored := cmp.Options{cmpopts.IgnoreFields(log.Op{}, "Line"), cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(ops, read, ignored); diff != "" {
		t.Errorf("the history after it was read again (-made,+read):\n%s", diff)
	}
}

// inLogs leaves out attempts of pods that have a node, which logs cannot hold.
func inLogs(ops []log.Op) []log.Op {
	var kept []log.Op
	for _, op := range ops {
		if pod, isPod := op.Object.(*v1.Pod); isPod && op.Kind == log.Schedule && pod.Spec.NodeName != "" {
			continue
		}
		kept = append(kept, op)
	}
	return kept
}
