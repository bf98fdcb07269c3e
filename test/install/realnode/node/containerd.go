package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/berthdev/berth/test/support/controlplane"
)

// containerdConfig has a folder and a name for the sandbox image.
const containerdConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "%[1]s/containerd.sock"
[ttrpc]
  address = "%[1]s/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[3]s"
`

func (c *Cluster) socket() string { return filepath.Join(c.dir, "containerd", "containerd.sock") }

// startContainerd starts containerd with a configuration of its own, waits until it
// answers and imports the images.
func (c *Cluster) startContainerd(ctx context.Context) (*controlplane.Process, error) {
	folder := filepath.Join(c.dir, "containerd")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "config.toml")
	text := fmt.Sprintf(containerdConfig, folder, c.images.Pause, filepath.Join(c.dir, "cni"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	path, err := exec.LookPath("containerd")
	if err != nil {
		return nil, err
	}
	p, err := c.Run(path, "--config="+config)
	if err != nil {
		return nil, err
	}
	if err := p.Until(ctx, func(ctx context.Context) error { _, err := c.ctr(ctx, "version"); return err }); err != nil {
		return p, err
	}
	for _, archive := range c.images.archives() {
		if _, err := c.ctr(ctx, "images", "import", archive); err != nil {
			return p, fmt.Errorf("import an image: %w", err)
		}
	}
	return p, nil
}

// ctr runs containerd's client in the namespace of the kubelet's containers.
func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "ctr", append([]string{"--address=" + c.socket(), "--namespace=k8s.io"}, args...)...)
}

// endTasks kills every container that runs. An error means that one may be left: the
// process namespace ends it.
func (c *Cluster) endTasks(ctx context.Context) error {
	list, err := c.ctr(ctx, "tasks", "list", "--quiet")
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(list) {
		if _, err := c.ctr(ctx, "tasks", "delete", "--force", id); err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
	}
	return nil
}
