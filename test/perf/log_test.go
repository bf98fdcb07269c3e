package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	replaylog "github.com/berthdev/berth/test/replay/log"
)

// The log that is written is one that the replay reads, with all that the
// shape has.
func TestEveryShapesLogCanBeReplayed(t *testing.T) {
	o, err := parse([]string{"--nodes=10", "--existing=4", "--pods=6"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
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
				"apply Namespace": 1, "apply Node": 10, "apply running Pod": 4, "schedule Pod": s.count(o, "drain"),
			}
			if s.objects != nil {
				want["apply ReplicaSet"] = deployments
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ops (-want +got):\n%s", diff)
			}
		})
	}
}
