package main

import (
	"flag"
	"testing"

	"github.com/berthdev/berth/test/replay/generate"
)

var crowded = flag.Int("crowded", 10000, "how many generated decisions in crowded clusters are compared")

// Who would have to leave which node, and which node is chosen, is what
// kube-scheduler finds, where its own criteria leave no choice.
func TestGeneratedPreemptions(t *testing.T) {
	covered := compareAll(t, *crowded, func(seed uint64) *generate.Generator { return generate.NewCrowded(seed, perHistory) })
	if t.Failed() {
		return
	}
	for _, short := range covered.Room.Short(*crowded / 1000) {
		t.Errorf("the histories prove too little: %s", short)
	}
}
