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
	nodes          = 50
	namespace      = "berth-system"
	serviceAccount = "berth-manager"
	// pollEvery is how often the API server is asked about what is waited for.
	pollEvery = 200 * time.Millisecond
)

// stage is what the steps work on.
type demo struct {
	settings
	root           string // the module's folder
	cp             *controlplane.ControlPlane
	manager        *controlplane.Process
	metricsAddress string // address of the manager's metrics
	boundPods      int    // pods seen to be bound so far
}

// say prints one line of the story.
func (s *demo) printf(format string, args ...any) {
	fmt.Fprintf(s.out, "  "+format+"\n", args...)
}

// kubectl runs kubectl and shows the command with its output, as a user would
// see them.
func (s *demo) kubectl(ctx context.Context, args ...string) error {
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
	s.printf("$ kubectl %s", strings.Join(shown, " "))
	for line := range strings.Lines(out) {
		s.printf("  %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

// until polls done until it names nothing that is lacking. It gives up when
// ctx ends, or when the manager or a component of the control plane does.
func (s *demo) poll(ctx context.Context, done func() (lacking string, err error)) error {
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

func (s *demo) startControlPlane(ctx context.Context) error {
	if s.attachTo != "" {
		cp, err := controlplane.Attach(ctx, s.attachTo)
		if err != nil {
			return err
		}
		s.cp = cp
		return s.printServer()
	}
	s.printf("The first time this compiles Kubernetes: about ten minutes on two cores.")
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
	return s.printServer()
}

func (s *demo) printServer() error {
	version, err := s.cp.Client().Discovery().ServerVersion()
	if err != nil {
		return err
	}
	s.printf("kube-apiserver %s is ready at %s", version.GitVersion, s.cp.Config().Host)
	return nil
}

func (s *demo) addNodes(ctx context.Context) error {
	if s.attachTo != "" {
		s.printf("they are there")
		return nil
	}
	if err := s.cp.Nodes(ctx, nodes, controlplane.NodeOptions{}); err != nil {
		return err
	}
	s.printf("%d nodes are Ready", nodes)
	return nil
}

func (s *demo) install(ctx context.Context) error {
	if s.attachTo == "" {
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
func (s *demo) printKeepInfo() {
	var pids strings.Builder
	for _, pid := range s.cp.PIDs() {
		fmt.Fprintf(&pids, " %d", pid)
	}
	fmt.Fprintf(s.out, "\ndemo: all of it is left running\n")
	s.printf("export KUBECONFIG=%s", s.cp.Kubeconfig())
	s.printf("the manager's log: %s, its metrics: http://%s/metrics", s.managerLog(), s.metricsAddress)
	s.printf("to end it: kill -9%s; rm -r %s", pids.String(), s.cp.Dir())
}
