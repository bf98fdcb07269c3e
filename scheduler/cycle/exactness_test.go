package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

// opaquePlugins are plugins that do not declare their Reads to the scheduler
// with the cache: one of each kind.
var opaquePlugins = []string{"NodePorts", "TaintToleration", "PodTopologySpread", "ImageLocality", "NodeResourcesBalancedAllocation"}

// scheduler is a scheduler with its own cluster.
type scheduler struct {
	*run.Berth
	replay *run.Cluster
}

func newScheduler(t *testing.T, config run.Config) *scheduler {
	t.Helper()
	berth, err := run.NewBerth(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return &scheduler{berth, run.NewCluster(berth)}
}

// do applies one operation, and returns the output line of an attempt.
func (w *scheduler) do(t *testing.T, op log.Op) (*run.Outcome, string) {
	t.Helper()
	op.Object = op.Object.DeepCopyObject().(log.Object)
	outcome, err := w.replay.Do(op)
	if err != nil {
		t.Fatal(err)
	}
	if outcome == nil {
		return nil, ""
	}
	line, err := outcome.Line()
	if err != nil {
		t.Fatal(err)
	}
	return outcome, string(line)
}

// The cache, incremental counts and batch calls agree with the reference: node,
// reasons and each plugin's score.
func TestTheCacheEqualsTheReference(t *testing.T) {
	const histories, attempts, least = 60, 40, 1000
	var cachedAttempts uint64
	for seed := range uint64(histories) {
		g := generate.New(seed, attempts)
		switch seed % 4 {
		case 2:
			g = generate.NewWithDevices(seed, attempts)
		case 3:
			g = generate.NewPreempting(seed, attempts)
		}
		config := g.Config()
		if seed%3 == 1 {
			config.Opaque = opaquePlugins
		}
		cached := newScheduler(t, config)
		config.Reference, config.Opaque = true, nil
		reference := newScheduler(t, config)
		for n := 1; ; n++ {
			op, more := g.Next()
			if !more {
				break
			}
			_, got := cached.do(t, op)
			outcome, want := reference.do(t, op)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, op %d (-reference, +cache):\n%s", seed, n, diff)
			}
			if outcome != nil {
				g.Observe(outcome)
			}
		}
		cachedAttempts += cached.EquivalenceCache().Stats().Cached
	}
	if cachedAttempts < least {
		t.Errorf("only %d attempts used the cache, want at least %d", cachedAttempts, least)
	}
	t.Log(fmt.Sprint(cachedAttempts), "cached attempts")
}

// FuzzClassKeys searches for two pods with equal keys and different results.
// The pods come from a generated history. The second of a pair is the first
// with some fields of a third and a small change, so that a field that a plugin
// reads and the key lacks is found after some time.
func FuzzClassKeys(f *testing.F) {
	const seeds, pairs = 40, 60
	for seed := range uint64(seeds) {
		f.Add(seed)
	}
	equal, compared := 0, 0
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := generate.New(seed, 25)
		config := g.Config()
		// All nodes are evaluated, because otherwise two attempts start at
		// different nodes.
		config.Profile = config.Profile.DeepCopy()
		config.Profile.Spec.PercentageOfNodesToScore = 100
		cached := newScheduler(t, config)
		config.Reference = true
		reference := newScheduler(t, config)
		if !reference.Framework().HasScorePlugins() {
			return // the search ends at the first feasible node
		}
		pods := runHistory(t, g, cached, reference)
		for range pairs {
			a := pods[rng.IntN(len(pods))]
			b := a.DeepCopy()
			if rng.IntN(2) == 0 {
				b = withFieldsOf(rng, a, pods[rng.IntN(len(pods))])
			}
			smallChanges[rng.IntN(len(smallChanges))](rng, b)
			compared++
			key := cached.EquivalenceCache().Key(a)
			if key == "" || key != cached.EquivalenceCache().Key(b) || cmp.Equal(a, b) {
				continue
			}
			if framework.HasVolumes(a) && !cmp.Equal(a.Spec.Volumes, b.Spec.Volumes) {
				// The key only holds whether there are volumes. Plugins read
				// them in each attempt, see ADR 13.
				continue
			}
			equal++
			if diff := cmp.Diff(outcomeOf(t, reference, a), outcomeOf(t, reference, b)); diff != "" {
				t.Fatalf("two pods of one class differ in\n%s\nand have different results (-first, +second)\n%s", cmp.Diff(a, b), diff)
			}
		}
	})
	f.Cleanup(func() {
		f.Logf("%d of %d pairs had equal keys", equal, compared)
		if compared >= seeds*pairs && equal < compared/20 {
			f.Errorf("%d of %d pairs had equal keys, want more", equal, compared)
		}
	})
}

// runHistory applies a history to all schedulers, and returns the pods that
// were scheduled. Keys depend on the selectors at the end of the history.
func runHistory(t *testing.T, g *generate.Generator, schedulers ...*scheduler) (pods []*v1.Pod) {
	t.Helper()
	for {
		op, more := g.Next()
		if !more {
			break
		}
		for i, scheduler := range schedulers {
			outcome, _ := scheduler.do(t, op)
			if outcome != nil && i == len(schedulers)-1 {
				g.Observe(outcome)
			}
		}
		if pod, is := op.Object.(*v1.Pod); is && op.Kind == log.Schedule {
			pods = append(pods, pod.DeepCopy())
		}
	}
	for _, scheduler := range schedulers {
		if err := scheduler.UpdateSnapshot(); err != nil {
			t.Fatal(err)
		}
	}
	return pods
}

// withFieldsOf returns a with one to three fields of b, of metadata, spec or
// status.
func withFieldsOf(rng *rand.Rand, a, b *v1.Pod) *v1.Pod {
	c := a.DeepCopy()
	for range 1 + rng.IntN(3) {
		into, from := reflect.ValueOf(&c.Spec).Elem(), reflect.ValueOf(b.DeepCopy().Spec)
		switch rng.IntN(8) {
		case 0:
			into, from = reflect.ValueOf(&c.ObjectMeta).Elem(), reflect.ValueOf(b.DeepCopy().ObjectMeta)
		case 1:
			into, from = reflect.ValueOf(&c.Status).Elem(), reflect.ValueOf(b.DeepCopy().Status)
		case 2, 3: // affinity
			if c.Spec.Affinity == nil || b.Spec.Affinity == nil {
				continue
			}
			into, from = reflect.ValueOf(c.Spec.Affinity).Elem(), reflect.ValueOf(*b.DeepCopy().Spec.Affinity)
		case 4, 5: // first container
			if len(c.Spec.Containers) == 0 || len(b.Spec.Containers) == 0 {
				continue
			}
			into, from = reflect.ValueOf(&c.Spec.Containers[0]).Elem(), reflect.ValueOf(b.DeepCopy().Spec.Containers[0])
		}
		field := rng.IntN(into.NumField())
		into.Field(field).Set(from.Field(field))
	}
	c.Name, c.UID = a.Name, a.UID
	// The priority matters on nominated nodes, which the reference evaluates.
	c.Spec.Priority = a.Spec.Priority
	// The nominated node is evaluated first, for every class.
	c.Status.NominatedNodeName = a.Status.NominatedNodeName
	return c
}

// smallChanges are changes that rarely change the class of a pod.
var smallChanges = []func(rng *rand.Rand, pod *v1.Pod){
	func(rng *rand.Rand, pod *v1.Pod) {
		pod.Annotations = map[string]string{"note": strconv.Itoa(rng.Int())}
	},
	func(rng *rand.Rand, pod *v1.Pod) {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "hash", strconv.Itoa(rng.Int()))
	},
	func(rng *rand.Rand, pod *v1.Pod) {
		pod.CreationTimestamp = metav1.Unix(rng.Int64N(1<<31), 0)
	},
	func(_ *rand.Rand, pod *v1.Pod) { slices.Reverse(pod.Spec.Tolerations) },
	func(_ *rand.Rand, pod *v1.Pod) { pod.Spec.Tolerations = nil },
	func(_ *rand.Rand, pod *v1.Pod) { slices.Reverse(pod.Spec.TopologySpreadConstraints) },
	func(_ *rand.Rand, pod *v1.Pod) { slices.Reverse(pod.Spec.Containers) },
	func(rng *rand.Rand, pod *v1.Pod) {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Env = []v1.EnvVar{{Name: "N", Value: strconv.Itoa(rng.Int())}}
		}
	},
	func(rng *rand.Rand, pod *v1.Pod) {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources.Limits = v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(rng.Int64N(99), resource.DecimalSI)}
		}
	},
	func(_ *rand.Rand, pod *v1.Pod) {
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: "Job", Name: "j"})
	},
	func(_ *rand.Rand, pod *v1.Pod) { pod.Spec.HostNetwork = !pod.Spec.HostNetwork },
	func(_ *rand.Rand, pod *v1.Pod) { pod.Spec.PreemptionPolicy = new(v1.PreemptNever) },
}

// outcomeOf returns the result of the reference for a pod.
func outcomeOf(t *testing.T, w *scheduler, pod *v1.Pod) string {
	t.Helper()
	outcome := w.Attempt(pod.DeepCopy())
	line, err := outcome.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}
