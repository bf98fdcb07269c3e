package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/controlplane"
)

// pluginSet is what a profile with an empty spec runs in this build of Berth.
type pluginSet struct {
	names   []string       // in the order in which Filter and Score ask them
	weights map[string]int // of those that score
}

// resolve asks the compiler.
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

// gates are the feature gates that kube-scheduler gets. Its batching acts on
// no pod as long as PodTopologySpread runs, so it must not begin to act only
// because Berth, and therefore this run, has that plugin not.
func (s pluginSet) gates(o options) string {
	if o.kubePlugins == "default" || s.has("PodTopologySpread") {
		return ""
	}
	return "OpportunisticBatching=false"
}

// installKube gives kube-scheduler an account with its own rights, and a
// configuration.
func installKube(ctx context.Context, s *stage) error {
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

func startKube(_ context.Context, s *stage) (*controlplane.Process, error) {
	flags := []string{"--config=" + s.kubeconfig, "--secure-port=0", "--authentication-tolerate-lookup-failure=true"}
	if gates := s.plugins.gates(s.options); gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	return s.cp.Run(s.binaries.kube, flags...)
}
