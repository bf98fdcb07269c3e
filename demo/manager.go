package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/berthdev/berth/test/support/controlplane"
)

func (s *demo) buildManager(ctx context.Context) error {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return err
	}
	s.root = root
	if err := goBuild(ctx, root, s.managerPath()); err != nil {
		return err
	}
	s.printf("bin/manager is built")
	return nil
}

// goBuild builds the program in the folder dir, and shows what the compiler says.
func goBuild(ctx context.Context, dir, to string) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, ".")
	build.Dir, build.Stdout, build.Stderr = dir, os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

func (s *demo) managerPath() string { return filepath.Join(s.root, "bin", "manager") }

// runManager starts the manager with the permissions of its service account only, so that
// the demo fails if the shipped roles lack one.
func (s *demo) runManager(ctx context.Context) error {
	kubeconfig, err := s.cp.ServiceAccountKubeconfig(ctx, namespace, serviceAccount)
	if err != nil {
		return err
	}
	addresses, err := controlplane.FreeAddresses(2)
	if err != nil {
		return err
	}
	probes := addresses[0]
	s.metricsAddress = addresses[1]
	s.manager, err = s.cp.Run(s.managerPath(),
		"--kubeconfig="+kubeconfig,
		"--namespace="+namespace,
		"--health-probe-bind-address="+probes,
		"--metrics-bind-address="+s.metricsAddress,
		"--metrics-secure=false", // the address is on loopback
	)
	if err != nil {
		return err
	}
	if err := s.manager.Until(ctx, func(ctx context.Context) error { return askReady(ctx, probes) }); err != nil {
		return err
	}
	s.printf("the manager is ready, as system:serviceaccount:%s:%s", namespace, serviceAccount)
	return nil
}

func (s *demo) managerLog() string {
	if s.manager == nil {
		return "none, it was not started"
	}
	return s.manager.Log()
}

func askReady(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	return nil
}
