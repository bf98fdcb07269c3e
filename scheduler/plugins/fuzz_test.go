package plugins_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/hostile"
)

// argumentSeeds are arguments by plugin, in YAML: real ones, and some that are invalid.
var argumentSeeds = map[string][]string{
	"NodeResourcesFit": {
		`scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}, {name: example.com/gpu, weight: 1}]}`,
		`scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}`,
		`{ignoredResources: [example.com/gpu], ignoredResourceGroups: [example.org]}`,
		`scoringStrategy: {type: Tightest, resources: [{name: "", weight: -9223372036854775808}]}`,
	},
	"NodeResourcesBalancedAllocation": {`resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]`, `resources: [{name: cpu, weight: 101}]`},
	"NodeAffinity": {
		`addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}`,
		`addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}`,
	},
	"InterPodAffinity": {`hardPodAffinityWeight: 5`, `{hardPodAffinityWeight: 101, ignorePreferredTermsOfExistingPods: true}`},
	"PodTopologySpread": {
		`{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}`,
		`{defaultingType: List, defaultConstraints: [{maxSkew: -1, topologyKey: "", whenUnsatisfiable: Maybe, minDomains: 0}, {}]}`,
		`defaultingType: System`,
	},
	"DefaultPreemption": {`{minCandidateNodesPercentage: 10, minCandidateNodesAbsolute: 100}`, `{minCandidateNodesPercentage: -1, minCandidateNodesAbsolute: 0}`},
	"VolumeBinding":     {`bindTimeoutSeconds: 600`, `{bindTimeoutSeconds: -1, shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}`},
	"DynamicResources":  {`filterTimeout: 10s`, `{filterTimeout: -1ns, bindingTimeout: 9223372036s}`},
	"ServiceAffinity":   {`affinityLabels: [zone]`, `{antiAffinityLabelsPreference: [rack], affinityLabels: [""]}`},
	"NodeName":          {`{}`},
}

// profileWith returns a profile that runs a plugin with arguments, inline or of a
// PluginConfig.
func profileWith(plugin string, args *runtime.RawExtension, config string) *v1alpha1.SchedulingProfile {
	p := &v1alpha1.SchedulingProfile{}
	p.Name = "fuzzed"
	entry := v1alpha1.PluginArguments{Name: plugin, Args: args}
	if config != "" {
		entry.Args, entry.ConfigRef = nil, &v1alpha1.PluginConfigReference{Name: config}
	}
	p.Spec.PluginConfig = []v1alpha1.PluginArguments{entry}
	if !compile.IsDefault(plugin) {
		p.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: plugin}}}}
	}
	return p
}

// FuzzArguments gives a plugin any arguments. Arguments that are accepted mean the same inline
// and in a PluginConfig, and written with their defaults; the plugin can be built with them, and
// pods are scheduled. The errors of others name their fields.
func FuzzArguments(f *testing.F) {
	registry := plugins.InTree()
	names := registry.Names()
	for i, name := range names {
		for _, text := range argumentSeeds[name] {
			raw, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), raw)
		}
	}
	f.Add(uint8(0), []byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"NodeAffinityArgs","a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		if len(text) > 70<<10 {
			return
		}
		name := names[int(which)%len(names)]
		args := runtime.RawExtension{Raw: text}
		config := &v1alpha1.PluginConfig{Spec: v1alpha1.PluginConfigSpec{Plugin: name, Args: args}}
		config.Name = "fuzzed"
		hash, rejection := compile.Config(config, registry)
		inline, inlineRejection := compile.Profile(compile.Input{Profile: profileWith(name, &args, ""), Registry: registry})
		byReference, refRejection := compile.Profile(compile.Input{
			Profile: profileWith(name, nil, "fuzzed"), Configs: map[string]*v1alpha1.PluginConfig{"fuzzed": config}, Registry: registry,
		})
		if (rejection == nil) != (inlineRejection == nil) || (rejection == nil) != (refRejection == nil) {
			t.Fatalf("%s: as a PluginConfig %v, inline %v, by reference %v", name, rejection, inlineRejection, refRejection)
		}
		if rejection != nil {
			checkRejection(t, rejection, "spec.args")
			checkRejection(t, inlineRejection, "spec.pluginConfig[0].args")
			checkRejection(t, refRejection, "spec.pluginConfig[0].configRef.name")
			return
		}
		if len(hash) != 10 || inline.Hash != byReference.Hash {
			t.Fatalf("%s: hash %q; inline %s, by reference %s", name, hash, inline.Hash, byReference.Hash)
		}
		written, err := json.Marshal(inline.Args[name])
		if err != nil {
			t.Fatal(err)
		}
		again, rejection := compile.Profile(compile.Input{Profile: profileWith(name, &runtime.RawExtension{Raw: written}, ""), Registry: registry})
		if rejection != nil || again.Hash != inline.Hash {
			t.Fatalf("%s: %s is accepted, and with defaults, %s, it is not the same: %v", name, text, written, rejection)
		}
		scheduleWith(t, profileWith(name, &args, ""))
	})
}

// checkRejection checks that each error names a field below path and says something.
func checkRejection(t *testing.T, r *compile.Rejection, path string) {
	t.Helper()
	for _, e := range r.Errors {
		if !strings.HasPrefix(e.Path, path) || e.Detail == "" || e.Reason == "" || e.Condition == "" {
			t.Fatalf("%+v: want an error of %s", e, path)
		}
	}
	if message := r.Message(); message == "" || utf8.RuneCountInString(message) > 32768 {
		t.Fatalf("the message has %d characters", utf8.RuneCountInString(message))
	}
}

// scheduleWith builds the plugins of a profile and schedules pods with them.
func scheduleWith(t *testing.T, p *v1alpha1.SchedulingProfile) {
	t.Helper()
	berth, err := run.NewBerth(t.Context(), run.Config{Profile: p, Preempt: true})
	if err != nil {
		t.Fatalf("its plugins cannot be built: %v", err)
	}
	cluster := run.NewCluster(berth)
	for _, op := range []log.Op{
		{Kind: log.Apply, Object: fixture.Node("n0").Zone("a").Label("disk", "ssd").Capacity("cpu", "4", "memory", "8Gi", "pods", "3", "example.com/gpu", "1").Obj()},
		{Kind: log.Apply, Object: fixture.Node("n1").Zone("b").Capacity("cpu", "2", "memory", "4Gi", "pods", "3").Obj()},
		{Kind: log.Apply, Object: fixture.Pod("old").Label("app", "web").Requests("cpu", "1").On("n0").Obj()},
		{Kind: log.Schedule, Object: fixture.Pod("a").Label("app", "web").Requests("cpu", "500m", "memory", "1Gi", "example.com/gpu", "1").
			PreferPodAffinity(5, fixture.PodAffinityTerm(v1.LabelTopologyZone, "app", "web")).Obj()},
		{Kind: log.Schedule, Object: fixture.Pod("b").Owner("ReplicaSet", "web").Label("app", "web").Obj()},
		{Kind: log.Schedule, Object: fixture.Pod("c").Requests("cpu", "3").Priority(9).Obj()},
	} {
		outcome, err := cluster.Do(op)
		if err != nil {
			t.Fatal(err)
		}
		if unfit := (*framework.FitError)(nil); outcome != nil && outcome.Err != nil && !errors.As(outcome.Err, &unfit) {
			t.Fatalf("pod %s: %v", outcome.Pod.Name, outcome.Err)
		}
	}
}

// FuzzHints calls the queueing hints of every plugin with objects that the API server would
// refuse, for pods that it would refuse: informers call them. A hint that returns an error
// queues the pod.
func FuzzHints(f *testing.F) {
	for number := range uint64(12) {
		f.Add(hostile.Seed(number, 400))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4096 {
			return
		}
		b := hostile.New(input)
		berth, err := run.NewBerth(t.Context(), run.Config{Profile: run.DefaultProfile()})
		if err != nil {
			t.Fatal(err)
		}
		pods := []*v1.Pod{b.Pod("p"), b.Pod("q"), b.Pod("q"), fixture.Pod("plain").Obj()}
		nodes := []*v1.Node{b.Node("n0"), b.Node("n0")}
		for _, name := range plugins.InTree().Names() {
			if !slices.ContainsFunc(compile.DefaultPlugins(), func(e framework.Entry) bool { return e.Name == name }) {
				continue
			}
			plugin, err := berth.Plugin(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			extension, ok := plugin.(fwk.EnqueueExtensions)
			if !ok {
				continue
			}
			events, err := extension.EventsToRegister(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events {
				callHint(t, name, event, pods, nodes)
			}
		}
	})
}

// callHint calls a hint for each pod with the objects that its event may have.
func callHint(t *testing.T, plugin string, event fwk.ClusterEventWithHint, pods []*v1.Pod, nodes []*v1.Node) {
	t.Helper()
	var before, after any
	switch event.Event.Resource {
	case fwk.Node:
		before, after = nodes[0], nodes[1]
	case fwk.AssignedPod, framework.TerminatingPod:
		old, changed := pods[1].DeepCopy(), pods[2].DeepCopy()
		old.Spec.NodeName, changed.Spec.NodeName = "n0", "n0"
		before, after = old, changed
	case fwk.TargetPod:
		before, after = pods[1], pods[0]
	default:
		return
	}
	if event.QueueingHintFn == nil {
		return
	}
	for _, pod := range pods {
		for _, change := range [][2]any{{nil, after}, {before, nil}, {before, after}} {
			action := fwk.Update
			if change[0] == nil {
				action = fwk.Add
			} else if change[1] == nil {
				action = fwk.Delete
			}
			if event.Event.ActionType&action == 0 {
				continue
			}
			first, firstErr := event.QueueingHintFn(klog.Background(), pod, change[0], change[1])
			second, secondErr := event.QueueingHintFn(klog.Background(), pod, change[0], change[1])
			if diff := cmp.Diff([]any{first, firstErr == nil}, []any{second, secondErr == nil}); diff != "" {
				t.Fatalf("%s, %s: two answers to one question:\n%s", plugin, event.Event.Label(), diff)
			}
		}
	}
}

// The seeds use each plugin that has arguments.
func TestArgumentSeedsAreComplete(t *testing.T) {
	for name, registration := range plugins.InTree() {
		if registration.NewArgs != nil && len(argumentSeeds[name]) == 0 {
			t.Errorf("no seed has arguments of %s", name)
		}
	}
}
