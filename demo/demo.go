package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/controlplane"
)

const (
	nodes          = 50
	namespace      = "berth-system"
	serviceAccount = "berth-manager"
	// pollEvery is the interval of polling the API server.
	pollEvery = 200 * time.Millisecond
)

// demo is the state that the steps share.
type demo struct {
	settings
	root           string // the module's folder
	cp             *controlplane.ControlPlane
	manager        *controlplane.Process
	metricsAddress string // address of the manager's metrics
	boundPods      int    // pods seen to be bound so far
}

// printf prints a line.
func (s *demo) printf(format string, args ...any) {
	fmt.Fprintf(s.out, "  "+format+"\n", args...)
}

// kubectl runs kubectl and prints the command with its output.
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

// poll calls done until it returns that nothing is missing. It gives up when ctx ends, or
// when the manager or a component of the control plane exits.
func (s *demo) poll(ctx context.Context, done func() (missing string, err error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := s.cp.Running(); err != nil {
			return err
		}
		missing, err := done()
		if err == nil && missing == "" {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), missing)
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
		s.printf("the nodes exist already")
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
		install := filepath.Join(s.root, "test", "support", "operator", "install")
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

// printKeepInfo prints how to use and how to stop what DEMO_KEEP leaves running.
func (s *demo) printKeepInfo() {
	var pids strings.Builder
	for _, pid := range s.cp.PIDs() {
		fmt.Fprintf(&pids, " %d", pid)
	}
	fmt.Fprintf(s.out, "\ndemo: everything is left running\n")
	s.printf("export KUBECONFIG=%s", s.cp.Kubeconfig())
	s.printf("see it in a browser: bin/kubectl-berth ui")
	s.printf("the manager's log: %s, its metrics: http://%s/metrics", s.managerLog(), s.metricsAddress)
	s.printf("stop it with: kill -9%s; rm -r %s", pids.String(), s.cp.Dir())
}
