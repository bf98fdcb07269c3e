package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/test/controlplane"
)

const (
	nodes     = 50
	namespace = "berth-system"
	account   = "berth-manager"
	// pollEvery is how often the API server is asked about what is waited for.
	pollEvery = 200 * time.Millisecond
)

// stage is what the steps work on.
type stage struct {
	settings
	root    string // the module's folder
	cp      *controlplane.ControlPlane
	manager *controlplane.Process
	metrics string // address of the manager's metrics
	bound   int    // pods seen to be bound so far
}

// say prints one line of the story.
func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.out, "  "+format+"\n", args...)
}

// kubectl runs kubectl and shows the command with its output, as a user would
// see them.
func (s *stage) kubectl(ctx context.Context, args ...string) error {
	out, err := s.cp.Kubectl(ctx, nil, args...)
	if err != nil {
		return err
	}
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = strings.ReplaceAll(arg, s.root+"/", "")
		if strings.ContainsAny(arg, " {*") {
			shown[i] = "'" + shown[i] + "'"
		}
	}
	s.say("$ kubectl %s", strings.Join(shown, " "))
	for line := range strings.Lines(out) {
		s.say("  %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

// until polls done until it names nothing that is lacking. It gives up when
// ctx ends, or when the manager or a component of the control plane does.
func (s *stage) until(ctx context.Context, done func() (lacking string, err error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := s.cp.Running(); err != nil {
			return err
		}
		lacking, err := done()
		if err == nil && lacking == "" {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), lacking)
		}
	}
}

func (s *stage) startControlPlane(ctx context.Context) error {
	if s.on != "" {
		cp, err := controlplane.Attach(ctx, s.on)
		if err != nil {
			return err
		}
		s.cp = cp
		return s.sayWhich()
	}
	s.say("The first time this compiles Kubernetes: about ten minutes on two cores.")
	if _, err := controlplane.Assets(ctx); err != nil {
		return err
	}
	options := controlplane.Options{ControllerManager: true, KWOK: true, Outlive: s.keep}
	if s.keep {
		dir, err := os.MkdirTemp("", "berth-demo-")
		if err != nil {
			return err
		}
		options.Dir = dir
	}
	cp, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	s.cp = cp
	return s.sayWhich()
}

func (s *stage) sayWhich() error {
	version, err := s.cp.Client().Discovery().ServerVersion()
	if err != nil {
		return err
	}
	s.say("kube-apiserver %s is ready at %s", version.GitVersion, s.cp.Config().Host)
	return nil
}

func (s *stage) addNodes(ctx context.Context) error {
	if s.on != "" {
		s.say("they are there")
		return nil
	}
	if err := s.cp.Nodes(ctx, nodes, controlplane.NodeOptions{}); err != nil {
		return err
	}
	s.say("%d nodes are Ready", nodes)
	return nil
}

func (s *stage) install(ctx context.Context) error {
	if s.on == "" {
		install := filepath.Join(s.root, "test", "operator", "install")
		if _, err := s.cp.Kubectl(ctx, nil, "apply", "--server-side", "-k", install); err != nil {
			return err
		}
	}
	crds := []string{"crd/schedulingprofiles.berth.dev", "crd/pluginconfigs.berth.dev", "crd/schedulingdecisions.berth.dev"}
	if _, err := s.cp.Kubectl(ctx, nil, append([]string{"wait", "--for=condition=Established"}, crds...)...); err != nil {
		return err
	}
	return s.kubectl(ctx, "get", "crd,serviceaccount", "--namespace", namespace, "--output=name")
}

// sayWhereItRuns tells a user of DEMO_KEEP how to look around, and how to end
// it all.
func (s *stage) sayWhereItRuns() {
	var pids strings.Builder
	for _, pid := range s.cp.PIDs() {
		fmt.Fprintf(&pids, " %d", pid)
	}
	fmt.Fprintf(s.out, "\ndemo: all of it is left running\n")
	s.say("export KUBECONFIG=%s", s.cp.Kubeconfig())
	s.say("the manager's log: %s, its metrics: http://%s/metrics", s.managerLog(), s.metrics)
	s.say("to end it: kill -9%s; rm -r %s", pids.String(), s.cp.Dir())
}
