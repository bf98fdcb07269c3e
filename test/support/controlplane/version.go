package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Minor returns of which minor version of Kubernetes a binary is, such as 37 for a
// kube-apiserver v1.37.1: tools/build.sh has older ones. Flags may depend on it, so
// that it can be known before anything starts.
func Minor(ctx context.Context, binary string) (int, error) {
	binaries, err := Assets(ctx)
	if err != nil {
		return 0, err
	}
	path, err := binaries.Path(binary)
	if err != nil {
		return 0, err
	}
	said, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	// It says "Kubernetes v1.37.1".
	parsed, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(string(said)), "Kubernetes "))
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	return int(parsed.Minor()), nil
}

// NoScheduler says why upstream's kube-scheduler does not run on the API server;
// nothing where it does. Kubernetes' version skew policy has no scheduler that is
// newer than the API server: it waits for kinds that are not served.
func NoScheduler(ctx context.Context) (why string, err error) {
	server, err := Minor(ctx, "kube-apiserver")
	if err != nil {
		return "", err
	}
	scheduler, err := Minor(ctx, "kube-scheduler")
	if err != nil || scheduler <= server {
		return "", err
	}
	return fmt.Sprintf("kube-scheduler 1.%d does not run on an older kube-apiserver, of 1.%d", scheduler, server), nil
}
