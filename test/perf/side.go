package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// The sides that are compared with each other.
const berth, kube = "berth", "kube-scheduler"

// What explanations cost: Berth as it is shipped explains who waits; one side
// explains nobody, and one writes a SchedulingDecision for who is bound, too.
const unexplained, recorded = "berth-unexplained", "berth-recorded"

// side is one whole process that schedules: a row of a table.
type side struct {
	name string
	// drainOnly says that it finds only the pods that are there when it starts.
	drainOnly bool
	// explain is whom its profile explains. Sides that say so are one Berth with
	// different profiles, and can take turns.
	explain v1alpha1.Explain
	// asked says that it is measured only where --sides names it.
	asked bool
	// install prepares a control plane for it, once; may be nil.
	install func(context.Context, *stage) error
	// start starts it and does not wait for it.
	start func(context.Context, *stage) (*controlplane.Process, error)
	// beside creates what waits besides the measured pods, which are there before
	// it starts; may be nil.
	beside func(context.Context, *stage) error
}

// sides are all of them, in the order of the tables.
var sides = []side{
	{name: berth, explain: v1alpha1.ExplainRefusals, install: installBerth, start: startBerth},
	{name: kube, install: installKube, start: startKube},
	{name: "null", drainOnly: true, install: installNull, start: startNull()},
	{name: "null+watch", install: installNull, start: startNull("--watch")},
	{name: "null+events", drainOnly: true, install: installNull, start: startNull("--events")},
	{name: "null+watch+events", install: installNull, start: startNull("--watch", "--events")},
	{name: unexplained, asked: true, explain: v1alpha1.ExplainNone, install: installDecisions(v1alpha1.ExplainNone), start: startBerth},
	{name: recorded, asked: true, explain: v1alpha1.ExplainAll, install: installDecisions(v1alpha1.ExplainAll), start: startBerth},
	{name: alone, drainOnly: true, asked: true, install: installSlow, start: startSlow},
	{name: crowded, drainOnly: true, asked: true, install: installSlow, start: startSlow, beside: besideSlow},
}

// sideNames are all, or those that are measured where nobody says which.
func sideNames(all bool) []string {
	var names []string
	for _, s := range sides {
		if all || !s.asked {
			names = append(names, s.name)
		}
	}
	return names
}

// says names what was run, for the reader of a table.
func (s side) says(o options, set pluginSet) string {
	switch {
	case s.name == berth:
		return fmt.Sprintf("bin/manager under its ServiceAccount, profile with spec {}, %d plugins, no leader election", len(set.names))
	case s.name == unexplained || s.name == recorded:
		return "berth, explaining " + map[string]string{unexplained: "nobody", recorded: "who waits and who is bound"}[s.name]
	case s.name == kube && o.kubePlugins == "default":
		return fmt.Sprintf("kube-scheduler, its default plugins, parallelism %d, qps 5000, under a ServiceAccount, no leader election", o.parallelism)
	case s.name == kube:
		text := fmt.Sprintf("kube-scheduler, the plugins of Berth, parallelism %d, qps 5000, under a ServiceAccount, no leader election", o.parallelism)
		if gates := set.gates(o); gates != "" {
			text += ", " + gates
		}
		return text
	case s.name == alone || s.name == crowded:
		return saysSlow(s.name)
	}
	text := "binds to nodes in turn with 32 workers, decides nothing"
	if strings.Contains(s.name, "+watch") {
		text += ", watches pods and nodes"
	}
	if strings.Contains(s.name, "+events") {
		text += ", writes an event a pod"
	}
	return text
}

func installBerth(ctx context.Context, s *stage) error {
	return installProfile(ctx, s, v1alpha1.SchedulingProfileSpec{})
}

// installDecisions is installBerth with a profile that explains whom explain says.
func installDecisions(explain v1alpha1.Explain) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		return installProfile(ctx, s, explaining(explain))
	}
}

func explaining(explain v1alpha1.Explain) v1alpha1.SchedulingProfileSpec {
	return v1alpha1.SchedulingProfileSpec{Decisions: v1alpha1.DecisionPolicy{Explain: explain}}
}

func installProfile(ctx context.Context, s *stage, spec v1alpha1.SchedulingProfileSpec) error {
	if err := operator.Install(ctx, s.cp); err != nil {
		return err
	}
	return operator.ApplyProfile(ctx, s.cp, profile, spec)
}

func startBerth(ctx context.Context, s *stage) (*controlplane.Process, error) {
	manager, err := operator.Start(ctx, s.cp, s.binaries.manager, "--leader-elect=false")
	if err != nil {
		return nil, err
	}
	s.manager = manager
	return manager.Process, nil
}

func installNull(ctx context.Context, s *stage) (err error) {
	s.kubeconfig, err = s.account(ctx, namespace, "null-binder", "system:kube-scheduler")
	return err
}

func startNull(flags ...string) func(context.Context, *stage) (*controlplane.Process, error) {
	return func(_ context.Context, s *stage) (*controlplane.Process, error) {
		return s.cp.Run(s.binaries.null, append([]string{
			"--kubeconfig=" + s.kubeconfig, "--scheduler-name=" + profile,
		}, flags...)...)
	}
}
