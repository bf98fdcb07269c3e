package controlplane

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Attach is for a program that works on the control plane which another one started
// in the folder dir and keeps running. Stop ends what was Run here, and no more.
func Attach(ctx context.Context, dir string) (*ControlPlane, error) {
	binaries, err := Assets(ctx)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{dir: dir, binaries: binaries}
	if cp.admin, err = clientcmd.BuildConfigFromFlags("", cp.Kubeconfig()); err != nil {
		return nil, fmt.Errorf("no control plane runs in %s: %w", dir, err)
	}
	cp.admin.QPS = -1
	cp.client, err = kubernetes.NewForConfig(cp.admin)
	return cp, err
}
