package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	replaylog "github.com/berthdev/berth/scheduler/sandbox/log"
)

// The log that is written is one that the replay reads, with all that the
// shape has.
func TestEveryShapesLogCanBeReplayed(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		s.nodes, s.existing, s.count = 10, 4, 6 // in place of its own thousands
		t.Run(s.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log.jsonl")
			if err := writeLog(path, s, o); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			ops, err := replaylog.ReadAll(file)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, op := range ops {
				kind := op.Object.GetObjectKind().GroupVersionKind().Kind
				if pod, ok := op.Object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
					kind = "running Pod"
				}
				got[string(op.Kind)+" "+kind]++
			}
			want := map[string]int{
				"apply Namespace": 1, "apply Node": s.nodes, "apply running Pod": s.existing, "schedule Pod": s.count,
			}
			for _, object := range s.extras() {
				if err := setKind(object); err != nil {
					t.Fatal(err)
				}
				want["apply "+object.GetObjectKind().GroupVersionKind().Kind]++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ops (-want +got):\n%s", diff)
			}
		})
	}
}
