package generate_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

// played is a generated history as Berth schedules it: what happened, and what
// was decided.
func played(t *testing.T, g *generate.Generator) (ops []log.Op, lines string) {
	t.Helper()
	scheduler, err := run.OpenBerth(t.Context(), g.Config())
	if err != nil {
		t.Fatal(err)
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
			t.Fatalf("a cluster cannot do op %d: %v", len(ops), err)
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
	for kind, made := range map[string]func(uint64, int) *generate.Generator{"common": generate.New, "crowded": generate.NewCrowded} {
		for seed := range uint64(5) {
			ops, lines := played(t, made(seed, 60))
			again, linesAgain := played(t, made(seed, 60))
			if diff := cmp.Diff(ops, again); diff != "" {
				t.Errorf("%s seed %d: the second history differs (-first,+second):\n%s", kind, seed, diff)
			}
			if diff := cmp.Diff(lines, linesAgain); diff != "" {
				t.Errorf("%s seed %d: the second time was decided differently (-first,+second):\n%s", kind, seed, diff)
			}
		}
	}
}

// A history that is kept as a case must be the one that was found.
func TestAHistorySurvivesBeingWritten(t *testing.T) {
	for _, g := range []*generate.Generator{generate.New(7, 60), generate.NewCrowded(7, 60)} {
		ops, _ := played(t, g)
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
