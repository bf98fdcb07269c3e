package hints

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	changes   = flag.Int("changes", 10000, "how many changes happen at least around the pods of each plugin")
	flips     = flag.Int("flips", 500, "after how many of them a refused pod must have found a node")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history")
)

// perHistory is how many changes one cluster sees.
const perHistory = 250

// Whenever a refused pod would pass after a change, the change woke it.
func TestNoRefusedPodIsForgotten(t *testing.T) {
	for _, plugin := range refusing() {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			var total counts
			seed, idle := *firstSeed, uint64(0)
			for ; total.Changes < *changes || total.Flips < *flips && total.Changes < 4**changes; seed++ {
				one, err := history(t, plugin, seed, nothing)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if one.Changes == 0 {
					idle++
				}
				if played := seed - *firstSeed + 1; idle > 2+played/20 {
					t.Fatalf("in %d of %d histories nothing happened around pods that it refused", idle, played)
				}
				total.add(one)
			}
			t.Logf("seeds %d to %d: %+v", *firstSeed, seed-1, total)
			if total.Flips < *flips {
				t.Errorf("%d changes proved too little: after %d of them a refused pod found a node, want %d", total.Changes, total.Flips, *flips)
			}
		})
	}
}

// nothing is the event that no plugin misses.
var nothing = fwk.ClusterEvent{}

// unmissed are events that kube-scheduler's plugin registers for, though they
// change nothing.
var unmissed = map[string]string{
	"NodeDeclaredFeatures/TargetPodUpdate": "nothing that features are inferred from may change while a pod waits",
}

// The test of the test: a plugin that does not hear of one of the events that
// it registered for forgets a pod.
func TestEachEventIsMissed(t *testing.T) {
	for _, plugin := range refusing() {
		for _, event := range registered(t, plugin) {
			name := plugin + "/" + event.Label()
			t.Run(name, func(t *testing.T) {
				if why, ok := unmissed[name]; ok {
					t.Skip(why)
				}
				t.Parallel()
				for seed := *firstSeed; seed < *firstSeed+3000; seed++ {
					if _, err := history(t, plugin, seed, event); err != nil {
						var lost *forgotten
						if !errors.As(err, &lost) {
							t.Fatalf("seed %d: %v", seed, err)
						}
						return
					}
				}
				t.Errorf("nobody misses it: the plugin need not register for it, or the changes prove too little")
			})
		}
	}
}

// registered are the events that a plugin registers for, whatever its
// arguments, each action for itself.
func registered(t *testing.T, plugin string) []fwk.ClusterEvent {
	var events []fwk.ClusterEvent
	known := map[fwk.ClusterEvent]bool{}
	for seed := range uint64(20) {
		w, err := newWorld(t.Context(), plugin, generate.NewChanges(seed, plugin).Config(), nothing)
		if err != nil {
			t.Fatal(err)
		}
		hints, err := w.profile.Framework.RegisteredEvents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, hint := range hints {
			if hint.Plugin != plugin {
				continue
			}
			for _, action := range actions(hint.Event.ActionType) {
				one := fwk.ClusterEvent{Resource: hint.Event.Resource, ActionType: action}
				if !known[one] {
					known[one] = true
					events = append(events, one)
				}
			}
		}
	}
	return events
}

// actions are the parts of an action; any update is one.
func actions(all fwk.ActionType) []fwk.ActionType {
	var parts []fwk.ActionType
	if all&fwk.Update == fwk.Update {
		parts, all = append(parts, fwk.Update), all&^fwk.Update
	}
	for bit := fwk.ActionType(1); bit <= all; bit <<= 1 {
		if all&bit != 0 {
			parts = append(parts, bit)
		}
	}
	return parts
}

// wokenOtherwise are plugins that hold pods back and wake them without events.
var wokenOtherwise = map[string]string{
	"DefaultPreemption": "it holds a pod while victims are being told to go, and activates it itself",
}

// refusing are the plugins that can refuse a pod.
func refusing() []string {
	var names []string
	registry := plugins.InTree()
	for _, name := range registry.Names() {
		if _, ok := wokenOtherwise[name]; ok || !upstreamconfig.IsUpstreamPlugin(name) {
			continue
		}
		for _, point := range []framework.Point{framework.PreEnqueue, framework.PreFilter, framework.Filter, framework.Reserve, framework.Permit} {
			if registry[name].Implements(point) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// history plays the changes of one seed, to a plugin that goes without an
// event. A fault comes with its shrunk story, unless it was to be expected.
func history(t *testing.T, plugin string, seed uint64, without fwk.ClusterEvent) (counts, error) {
	g := generate.NewChanges(seed, plugin)
	w, err := newWorld(t.Context(), plugin, g.Config(), without)
	if err != nil {
		return counts{}, err
	}
	var ops []log.Op
	for range perHistory {
		ops = append(ops, g.Next())
		if err := w.do(t.Context(), ops[len(ops)-1]); err != nil {
			if without == nothing {
				err = story(t, plugin, g.Config(), ops)
			}
			return w.counts, err
		}
		for _, pod := range w.gone {
			g.Gone(pod)
		}
		w.gone = nil
	}
	return w.counts, nil
}

// story is the fault that a history ends in, with the shortest history found
// that ends in one.
func story(t *testing.T, plugin string, config run.Config, ops []log.Op) error {
	var fault error
	ops = log.Shrink(ops, func(ops []log.Op) int {
		w, err := newWorld(t.Context(), plugin, config, nothing)
		if err != nil {
			return -1
		}
		for i, op := range ops {
			if err := w.do(t.Context(), op); err != nil {
				fault = err
				return i
			}
		}
		return -1
	})
	var text strings.Builder
	for _, document := range []any{config.Profile.Spec, config.Configs} {
		written, err := json.Marshal(document)
		if err != nil {
			return err
		}
		text.Write(append(written, '\n'))
	}
	if err := log.WriteAll(&text, ops); err != nil {
		return err
	}
	return fmt.Errorf("%w\n%s", fault, &text)
}
