package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/plugins/gangscheduling"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// The sides that are compared with each other.
const berth, kube = "berth", "kube-scheduler"

// elected is Berth as it is installed, with leader election.
const elected = "berth-elected"

// nullOfAllKinds keeps in informers what Berth does: its start is compared with Berth's.
const nullOfAllKinds = "null+watch+kinds"

// What explanations cost: Berth by default explains refused pods; one side has no
// explanations, and one writes a SchedulingDecision for bound pods, too.
const unexplained, recorded = "berth-unexplained", "berth-recorded"

// side is a scheduler process: a row of a table.
type side struct {
	name string
	// drainOnly says that it binds only the pods that exist when it starts.
	drainOnly bool
	// optional says that it is measured only where --sides names it.
	optional bool
	// install prepares a control plane for it; one that is prepared already stays so.
	install func(context.Context, *testEnv) error
	// start starts it and does not wait for it.
	start func(context.Context, *testEnv) (*controlplane.Process, error)
	// background creates pods that are not measured, before it starts; may be nil.
	background func(context.Context, *testEnv) error
}

// sides are all of them, in the order of the tables.
var sides = []side{
	{name: berth, install: installBerth, start: startBerth},
	{name: kube, install: installKube, start: startKube},
	{name: "null", drainOnly: true, install: installNull, start: startNull()},
	{name: "null+watch", install: installNull, start: startNull("--watch")},
	{name: "null+events", drainOnly: true, install: installNull, start: startNull("--events")},
	{name: "null+watch+events", install: installNull, start: startNull("--watch", "--events")},
	{name: nullOfAllKinds, optional: true, install: installNull, start: startNull("--watch", "--kinds")},
	{name: elected, optional: true, install: installBerth, start: startElected},
	{name: unexplained, optional: true, install: installDecisions(v1alpha1.ExplainNone), start: startBerth},
	{name: recorded, optional: true, install: installDecisions(v1alpha1.ExplainAll), start: startBerth},
	{name: slowProfileAlone, drainOnly: true, optional: true, install: installSlow, start: startSlow},
	{name: slowProfileWithPods, drainOnly: true, optional: true, install: installSlow, start: startSlow, background: createSlowPods},
}

// sideNames returns all names, or those that are measured by default.
func sideNames(all bool) []string {
	var names []string
	for _, s := range sides {
		if all || !s.optional {
			names = append(names, s.name)
		}
	}
	return names
}

// description is that in a table.
func (s side) description(o options, set pluginSet) string {
	switch {
	case s.name == berth:
		with := "with spec {}"
		if set.has(gangscheduling.Name) {
			with = "that enables " + gangscheduling.Name
		}
		return fmt.Sprintf("bin/manager under its ServiceAccount, profile %s, %d plugins, no leader election", with, len(set.names))
	case s.name == elected:
		return "berth, with leader election; drain deletes the Lease and the journal of earlier leaders"
	case s.name == unexplained || s.name == recorded:
		return "berth, with " + map[string]string{unexplained: "no explanations", recorded: "explanations of refused and bound pods"}[s.name]
	case s.name == kube && o.kubePlugins == "default":
		return fmt.Sprintf("kube-scheduler, its default plugins, parallelism %d, qps 5000, under a ServiceAccount, no leader election", o.parallelism)
	case s.name == kube:
		text := fmt.Sprintf("kube-scheduler, the plugins of Berth, parallelism %d, qps 5000, under a ServiceAccount, no leader election", o.parallelism)
		if gates := set.gates(o); gates != "" {
			text += ", " + gates
		}
		return text
	case s.name == slowProfileAlone || s.name == slowProfileWithPods:
		return slowDescription(s.name)
	}
	text := "binds to nodes in turn with 32 workers, decides nothing"
	if strings.Contains(s.name, "+watch") {
		text += ", watches pods and nodes"
	}
	if strings.Contains(s.name, "+kinds") {
		text += ", and the other kinds that Berth watches"
	}
	if strings.Contains(s.name, "+events") {
		text += ", writes an Event for each pod"
	}
	return text
}

func installBerth(ctx context.Context, s *testEnv) error {
	return installProfile(ctx, s, s.plugins.spec())
}

// installDecisions is installBerth with a profile with this decisions.explain.
func installDecisions(explain v1alpha1.Explain) func(context.Context, *testEnv) error {
	return func(ctx context.Context, s *testEnv) error {
		return installProfile(ctx, s, v1alpha1.SchedulingProfileSpec{Decisions: v1alpha1.DecisionPolicy{Explain: explain}})
	}
}

func installProfile(ctx context.Context, s *testEnv, spec v1alpha1.SchedulingProfileSpec) error {
	if err := operator.Install(ctx, s.cp); err != nil {
		return err
	}
	return operator.ApplyProfile(ctx, s.cp, profile, spec)
}

func startBerth(ctx context.Context, s *testEnv) (*controlplane.Process, error) {
	return startManager(ctx, s, "--leader-elect=false")
}

func startElected(ctx context.Context, s *testEnv) (*controlplane.Process, error) {
	return startManager(ctx, s)
}

func startManager(ctx context.Context, s *testEnv, flags ...string) (*controlplane.Process, error) {
	manager, err := operator.Start(ctx, s.cp, s.binaries.manager, flags...)
	if err != nil {
		return nil, err
	}
	s.manager = manager
	if s.showsHeap {
		s.heapURL = "http://" + manager.Profiles
	}
	return manager.Process, nil
}

func installNull(ctx context.Context, s *testEnv) (err error) {
	s.kubeconfig, err = s.account(ctx, namespace, "null-binder", "system:kube-scheduler", "system:volume-scheduler")
	return err
}

func startNull(flags ...string) func(context.Context, *testEnv) (*controlplane.Process, error) {
	return func(_ context.Context, s *testEnv) (*controlplane.Process, error) {
		return s.cp.Run(s.binaries.null, append([]string{
			"--kubeconfig=" + s.kubeconfig, "--scheduler-name=" + profile,
		}, flags...)...)
	}
}

// What a slow profile costs the others: the same Berth with a second profile, whose plugin
// occupies the loop, with and without pods of it.
const (
	slowProfileAlone    = "slow-profile"
	slowProfileWithPods = "slow-profile+pods"
)

// slowProfile has the plugin Slow; slowPods is the number of its pods, more than may be
// attempted while the measured ones are bound.
const (
	slowProfile = "slow"
	slowPods    = 1000
)

func installSlow(ctx context.Context, s *testEnv) error {
	if err := installBerth(ctx, s); err != nil {
		return err
	}
	spec := v1alpha1.SchedulingProfileSpec{Plugins: &v1alpha1.Plugins{
		PreFilter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Slow"}}},
	}}
	return operator.ApplyProfile(ctx, s.cp, slowProfile, spec)
}

func startSlow(ctx context.Context, s *testEnv) (*controlplane.Process, error) {
	manager, err := operator.Start(ctx, s.cp, s.binaries.slow)
	if err != nil {
		return nil, err
	}
	return manager.Process, nil
}

// createSlowPods creates the pods of the slow profile.
func createSlowPods(ctx context.Context, s *testEnv) error {
	return load.Each(ctx, slowPods, s.options.workers, func(ctx context.Context, i int) error {
		pod := plain("slow")(i).SchedulerName(slowProfile).Obj()
		pod.Namespace = "default" // Events are counted by namespace
		return s.createPod(ctx, pod)
	})
}

func slowDescription(name string) string {
	text := "Berth with a profile with the plugin Slow, with leader election"
	if name == slowProfileWithPods {
		text += fmt.Sprintf("; %d pods of that profile, 20 ms of the loop for each", slowPods)
	}
	return text
}

// pluginSet has the plugins of a profile with an empty spec.
type pluginSet struct {
	names   []string       // in the order of Filter and Score
	weights map[string]int // of the Score plugins
}

// resolve compiles an empty spec.
func resolve() (pluginSet, error) {
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: &v1alpha1.SchedulingProfile{}, Registry: plugins.InTree(),
	})
	if rejection != nil {
		return pluginSet{}, fmt.Errorf("an empty spec: %s", rejection.Message())
	}
	set := pluginSet{weights: map[string]int{}}
	// Decisions depend on the order at Filter and Score, so these come first.
	for _, point := range append([]framework.Point{framework.Filter, framework.Score}, framework.Points...) {
		for _, entry := range blueprint.Chains[point] {
			if !slices.Contains(set.names, entry.Name) {
				set.names = append(set.names, entry.Name)
			}
			if point == framework.Score {
				set.weights[entry.Name] = int(entry.Weight)
			}
		}
	}
	return set, nil
}

func (s pluginSet) has(name string) bool { return slices.Contains(s.names, name) }

// gates are the feature gates of kube-scheduler. Its batching applies to no pod as long as
// PodTopologySpread runs; it must not apply only because Berth, and therefore this run, lacks
// that plugin.
func (s pluginSet) gates(o options) string {
	var gates []string
	if s.has(gangscheduling.Name) {
		gates = append(gates, "GenericWorkload=true")
	}
	if o.kubePlugins != "default" && !s.has("PodTopologySpread") {
		gates = append(gates, "OpportunisticBatching=false")
	}
	return strings.Join(gates, ",")
}

// installKube creates kube-scheduler's account with its own permissions, and its
// configuration.
func installKube(ctx context.Context, s *testEnv) error {
	kubeconfig, err := s.account(ctx, "kube-system", "kube-scheduler", "system:kube-scheduler", "system:volume-scheduler")
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(s.plugins.configuration(s.options, kubeconfig), "", "  ")
	if err != nil {
		return err
	}
	s.kubeconfig = filepath.Join(s.cp.Dir(), "kube-scheduler.json")
	return os.WriteFile(s.kubeconfig, text, 0o600)
}

// configuration is a KubeSchedulerConfiguration v1 with one profile.
func (s pluginSet) configuration(o options, kubeconfig string) map[string]any {
	served := map[string]any{"schedulerName": profile}
	if o.kubePlugins == "same" {
		enabled := []map[string]any{}
		for _, name := range s.names {
			entry := map[string]any{"name": name}
			if weight := s.weights[name]; weight > 0 {
				entry["weight"] = weight
			}
			enabled = append(enabled, entry)
		}
		served["plugins"] = map[string]any{"multiPoint": map[string]any{
			"enabled": enabled, "disabled": []map[string]any{{"name": "*"}},
		}}
	}
	return map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{
			"kubeconfig": kubeconfig, "qps": 5000, "burst": 10000, "contentType": "application/vnd.kubernetes.protobuf",
		},
		"leaderElection": map[string]any{"leaderElect": false},
		"parallelism":    o.parallelism,
		"profiles":       []map[string]any{served},
	}
}

func startKube(_ context.Context, s *testEnv) (*controlplane.Process, error) {
	flags := []string{"--config=" + s.kubeconfig, "--authentication-tolerate-lookup-failure=true"}
	if s.showsHeap {
		serving, err := controlplane.FreeAddresses(1)
		if err != nil {
			return nil, err
		}
		s.heapURL = "https://" + serving[0]
		_, port, err := net.SplitHostPort(serving[0])
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+s.cp.Dir(),
			"--authentication-kubeconfig="+s.cp.Kubeconfig(), "--authorization-kubeconfig="+s.cp.Kubeconfig())
	} else {
		flags = append(flags, "--secure-port=0")
	}
	if gates := s.plugins.gates(s.options); gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	return s.cp.Run(s.binaries.kube, flags...)
}
