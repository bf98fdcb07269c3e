package hints

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/logs"
)

var (
	changes   = flag.Int("changes", 10000, "minimal number of changes for each plugin")
	feasible  = flag.Int("feasible", 500, "minimal number of changes that make the first node feasible for a refused pod")
	firstSeed = flag.Uint64("seed", 1, "first seed")
)

// perHistory is the number of changes in one cluster.
const perHistory = 250

func TestNoRequeueIsMissed(t *testing.T) {
	for _, plugin := range refusingPlugins() {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			var total counts
			seed, idle := *firstSeed, uint64(0)
			for ; total.Changes < *changes || total.BecameFeasible < *feasible && total.Changes < 4**changes; seed++ {
				one, err := playHistory(t, plugin, seed, noEvent)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if one.Changes == 0 {
					idle++
				}
				if played := seed - *firstSeed + 1; idle > 2+played/20 {
					t.Fatalf("in %d of %d histories no pod was refused", idle, played)
				}
				total.add(one)
			}
			t.Logf("seeds %d to %d: %+v", *firstSeed, seed-1, total)
			if total.BecameFeasible < *feasible {
				t.Errorf("the changes test too little: %d changes, of which %d made the first node feasible for a refused pod, want %d", total.Changes, total.BecameFeasible, *feasible)
			}
		})
	}
}

// noEvent removes no event from those that the plugin registers for.
var noEvent = fwk.ClusterEvent{}

// unneeded are events that kube-scheduler's plugins register for, though they change no
// verdict.
var unneeded = map[string]string{
	"NodeDeclaredFeatures/TargetPodUpdate": "the fields from which features are inferred are immutable while a pod is pending",
}

// A plugin that does not get one of the events that it registered for misses a requeue: the
// changes and the check would find a hint that is wrong.
func TestEachRegisteredEventIsNeeded(t *testing.T) {
	for _, plugin := range refusingPlugins() {
		for _, event := range registeredEvents(t, plugin) {
			name := plugin + "/" + event.Label()
			t.Run(name, func(t *testing.T) {
				if why, ok := unneeded[name]; ok {
					t.Skip(why)
				}
				t.Parallel()
				for seed := *firstSeed; seed < *firstSeed+3000; seed++ {
					if _, err := playHistory(t, plugin, seed, event); err != nil {
						var lost *missedRequeue
						if !errors.As(err, &lost) {
							t.Fatalf("seed %d: %v", seed, err)
						}
						t.Logf("seed %d", seed)
						return
					}
				}
				t.Errorf("no requeue was missed: the plugin need not register for it, or the changes test too little")
			})
		}
	}
}

// registeredEvents are the events that a plugin registers for with some arguments, split into
// single actions.
func registeredEvents(t *testing.T, plugin string) []fwk.ClusterEvent {
	var events []fwk.ClusterEvent
	known := map[fwk.ClusterEvent]bool{}
	for seed := range uint64(20) {
		env, err := newTestEnv(t.Context(), plugin, generate.NewChanges(seed, plugin).Config(), noEvent)
		if err != nil {
			t.Fatal(err)
		}
		hints, err := env.profile.Framework.RegisteredEvents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, hint := range hints {
			if hint.Plugin != plugin {
				continue
			}
			for _, action := range splitActions(hint.Event.ActionType) {
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

// splitActions returns the bits of an action; Update is one.
func splitActions(all fwk.ActionType) []fwk.ActionType {
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

// excluded are plugins that refuse pods, and why the changes do not show whether they miss a
// requeue.
var excluded = map[string]string{
	"DefaultPreemption": "it gates a preemptor while its victims are evicted, and activates it itself",
	"GangScheduling":    "it refuses pods of groups alone, and the changes have none; test/integration/scenarios/groups has its events",
}

// refusingPlugins are the plugins that can refuse a pod.
func refusingPlugins() []string {
	var names []string
	registry := plugins.InTree()
	for _, name := range registry.Names() {
		if _, ok := excluded[name]; ok || !upstreamconfig.IsUpstreamPlugin(name) {
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

// playHistory plays the changes of one seed, to a plugin that does not get the events of
// without. A failure has its shrunk history, unless it is expected.
func playHistory(t *testing.T, plugin string, seed uint64, without fwk.ClusterEvent) (counts, error) {
	g := generate.NewChanges(seed, plugin)
	env, err := newTestEnv(t.Context(), plugin, g.Config(), without)
	if err != nil {
		return counts{}, err
	}
	var ops []log.Op
	for range perHistory {
		ops = append(ops, g.Next())
		if err := env.apply(t.Context(), ops[len(ops)-1]); err != nil {
			if without == noEvent {
				err = shrinkFailure(t, plugin, g.Config(), ops)
			}
			return env.counts, err
		}
		for _, pod := range env.finished {
			g.RemovePending(pod)
		}
		env.finished = nil
	}
	return env.counts, nil
}

// shrinkFailure returns the failure of a history with the shortest history found that fails.
func shrinkFailure(t *testing.T, plugin string, config run.Config, ops []log.Op) error {
	var fault error
	ops = logs.Shrink(ops, func(ops []log.Op) int {
		env, err := newTestEnv(t.Context(), plugin, config, noEvent)
		if err != nil {
			return -1
		}
		for i, op := range ops {
			if err := env.apply(t.Context(), op); err != nil {
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

// The events that an explanation names are those that reach a hint of the plugin that refused
// the pod, and no others.
func TestRequeueEventsReachTheHint(t *testing.T) {
	for _, plugin := range refusingPlugins() {
		t.Run(plugin, func(t *testing.T) {
			env, err := newTestEnv(t.Context(), plugin, generate.NewChanges(*firstSeed, plugin).Config(), noEvent)
			if err != nil {
				t.Fatal(err)
			}
			named := env.profile.RequeueEvents(plugin)
			if len(named) == 0 {
				t.Fatal("no event requeues its pods")
			}
			if !slices.IsSorted(named) {
				t.Errorf("%q is not sorted", named)
			}
			for _, event := range allEvents() {
				reached := env.reachesHint(t, event)
				if says := slices.ContainsFunc(eventNames(event), func(name string) bool { return slices.Contains(named, name) }); says != reached {
					t.Errorf("%s reaches its hint: %v; named in %q: %v", event.Label(), reached, named, says)
				}
			}
		})
	}
}

// allEvents are the events that the event handlers can pass to the queue.
func allEvents() (all []fwk.ClusterEvent) {
	kinds := []fwk.EventResource{
		fwk.AssignedPod, fwk.TargetPod, fwk.Node, framework.Namespace, framework.Service, framework.ReplicationController,
		framework.ReplicaSet, framework.StatefulSet, framework.TerminatingPod, fwk.PersistentVolume, fwk.PersistentVolumeClaim,
		fwk.StorageClass, fwk.CSINode, fwk.CSIDriver, fwk.CSIStorageCapacity, fwk.VolumeAttachment,
		fwk.ResourceClaim, fwk.ResourceSlice, fwk.DeviceClass,
	}
	for _, kind := range kinds {
		happen := []fwk.ActionType{fwk.Add, fwk.Delete, fwk.Update}
		for bit := fwk.UpdateNodeAllocatable; bit < fwk.All; bit <<= 1 {
			if kind == fwk.Node && bit < fwk.UpdatePodLabel || bit >= fwk.UpdatePodLabel && (kind == fwk.AssignedPod || kind == fwk.TargetPod) {
				happen = append(happen, bit)
			}
		}
		for _, action := range happen {
			all = append(all, fwk.ClusterEvent{Resource: kind, ActionType: action})
		}
	}
	return all
}

// eventNames are the names of an event and of the wider one, as in api.md.
func eventNames(e fwk.ClusterEvent) (names []string) {
	action := strings.NewReplacer("UpdateNode", "Update", "UpdatePod", "Update").Replace(e.ActionType.String())
	names = append(names, string(e.Resource)+"/"+action)
	if strings.HasPrefix(action, "Update") {
		names = append(names, string(e.Resource)+"/Update")
	}
	return names
}

// reachesHint says whether the queue passes an event to a hint of the plugin that refused a
// pod.
func (env *testEnv) reachesHint(t *testing.T, event fwk.ClusterEvent) (reached bool) {
	q := queue.New(queue.Options{Clock: env.clock})
	rules := *env.rules
	rules.PreEnqueue = func(context.Context, *v1.Pod, string) string { return "" }
	rules.Hints = slices.Clone(rules.Hints)
	for i := range rules.Hints {
		rules.Hints[i].Fn = func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
			reached = true
			return fwk.QueueSkip, nil
		}
	}
	pod := fixture.Pod("a").SchedulerName("p").Obj()
	q.SetProfile(t.Context(), "p", &rules)
	q.Add(t.Context(), pod)
	q.TryPop().Refused(t.Context(), sets.New(env.plugin), nil)
	q.Event(t.Context(), event, nil, pod, nil)
	return reached
}
