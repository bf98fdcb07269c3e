// Package node runs a cluster with one real node: the control plane of package
// controlplane, kubelet and containerd as processes, and KWOK nodes beside them.
//
// It changes the network and mounts of the machine that it runs on, so it works only
// inside of the namespaces that tools/real-node.sh makes: Start refuses to run
// elsewhere.
//
// Pods reach the API server without kube-proxy: the service address of kubernetes is
// an address of the bridge, and kube-apiserver listens there.
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/controlplane"
)

const (
	// startLimit bounds the start of a cluster, stopLimit its orderly end.
	startLimit = 3 * time.Minute
	stopLimit  = time.Minute
)

// FakeTaint keeps pods that do not tolerate it off the KWOK nodes: nothing runs there.
var FakeTaint = corev1.Taint{Key: "kwok.x-k8s.io/node", Value: "fake", Effect: corev1.TaintEffectNoSchedule}

// Images are the images on the node: a folder with manager.tar, workload.tar and
// pause.tar, and their names.
type Images struct {
	Dir                      string
	Manager, Workload, Pause string
	// Release is the folder of `make release-snapshot`, whose manifests are installed as they
	// are in place of those of the repository; empty for these.
	Release string
}

// SnapshotImage is the image in the manifests of `make release-snapshot`, and in its archives.
const SnapshotImage = "berth:snapshot"

// releaseManifests are the files of a release, by the folder under config that they are made of.
var releaseManifests = map[string]string{"config/default": "install.yaml", "config/production": "install-production.yaml"}

func (i Images) archives() []string {
	var all []string
	for _, name := range []string{"manager", "workload", "pause"} {
		all = append(all, filepath.Join(i.Dir, name+".tar"))
	}
	return all
}

// Options say what a cluster is made of.
type Options struct {
	// Dir is an empty or missing folder, which stays when the cluster ends.
	Dir string
	// Kubelet is the path of the kubelet, Containerd the folder of containerd, its shim and
	// its client.
	Kubelet, Containerd string
	Images              Images
	// KubeScheduler runs kube-scheduler, for pods that name no other scheduler.
	KubeScheduler bool
	// FakeNodes is how many KWOK nodes there are.
	FakeNodes int
}

// Cluster is a cluster that runs. Its methods may be called until Stop.
type Cluster struct {
	*controlplane.ControlPlane
	dir, kubelet, containerd string
	images                   Images
}

// Start starts a cluster and returns when its nodes are Ready. ctx bounds the start.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := setUpNetwork(ctx); err != nil {
		return nil, fmt.Errorf("set up the network: %w", err)
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Dir: options.Dir, ControllerManager: true, Scheduler: options.KubeScheduler,
		KWOK: options.FakeNodes > 0, KWOKOnlyFake: true,
		APIServerAddress:      net.JoinHostPort(serviceAddress, "443"),
		APIServerArgs:         []string{"--enable-admission-plugins=NodeRestriction"},
		ControllerManagerArgs: []string{"--root-ca-file=" + filepath.Join(options.Dir, "certs", "apiserver.crt")},
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: cp, dir: options.Dir, kubelet: options.Kubelet, containerd: options.Containerd, images: options.Images}
	if err := c.startNodes(ctx, options.FakeNodes); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Attach returns the cluster that another process started in dir and keeps running.
func Attach(ctx context.Context, dir string, images Images) (*Cluster, error) {
	cp, err := controlplane.Attach(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{ControlPlane: cp, dir: dir, images: images}, nil
}

func (c *Cluster) startNodes(ctx context.Context, fake int) error {
	if err := writeNetworkConfig(c.dir); err != nil {
		return err
	}
	if _, err := c.startContainerd(ctx); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	if _, err := c.startKubelet(ctx); err != nil {
		return fmt.Errorf("start kubelet: %w", err)
	}
	if fake == 0 {
		return nil
	}
	return c.Nodes(ctx, fake, controlplane.NodeOptions{Prefix: "fake", CPU: "32", Pods: 500, Change: func(_ int, n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, FakeTaint)
	}})
}

// Install runs `make deploy` for a folder under config, with the image of the manager, or applies
// the file that a release has in its place.
func (c *Cluster) Install(ctx context.Context, config string) error {
	if file, is := releaseManifests[config]; is && c.images.Release != "" {
		return c.installRelease(ctx, filepath.Join(c.images.Release, file))
	}
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return err
	}
	kubectl, err := c.Tool("kubectl")
	if err != nil {
		return err
	}
	deploy := exec.CommandContext(ctx, "make", "--no-print-directory", "deploy", "CONFIG="+config, "IMG="+c.images.Manager, "KUBECTL="+kubectl)
	deploy.Dir = root
	deploy.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	if text, err := deploy.CombinedOutput(); err != nil {
		return fmt.Errorf("make deploy CONFIG=%s: %w: %s", config, err, text)
	}
	return nil
}

// installRelease applies a manifest of a release as it is.
func (c *Cluster) installRelease(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "image: "+SnapshotImage+"\n") {
		return fmt.Errorf("%s does not have the image %s: is it of make release-snapshot?", file, SnapshotImage)
	}
	_, err = c.Kubectl(ctx, nil, "apply", "--server-side", "-f", file)
	return err
}

// Stop ends the pods, then the kubelet, the containers, containerd and the control
// plane. It returns what did not end in order; tools/real-node.sh ends all of it by
// ending the process namespace.
func (c *Cluster) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var errs []error
	if kubelet := c.Process(filepath.Base(c.kubelet)); kubelet != nil {
		errs = append(errs, c.endPods(ctx))
		c.End(kubelet)
	}
	if c.Process("containerd") != nil {
		errs = append(errs, c.endTasks(ctx))
	}
	c.ControlPlane.Stop()
	return errors.Join(errs...)
}

// containerdConfig has a folder, a name for the sandbox image, the folder of the network
// configuration, that of CDI specifications, and the path of the shim: one of another
// version may be installed on the machine.
const containerdConfig = `version = 3
root = "%[1]s/root"
state = "%[1]s/state"
imports = []
disabled_plugins = ["io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri"]
[grpc]
  address = "%[1]s/containerd.sock"
[ttrpc]
  address = "%[1]s/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "%[2]s"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["%[4]s"]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "%[5]s"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "%[3]s"
`

func (c *Cluster) socket() string { return filepath.Join(c.dir, "containerd", "containerd.sock") }

// cdi returns the folder of CDI specifications that containerd reads.
func (c *Cluster) cdi() string { return filepath.Join(c.dir, "cdi") }

// startContainerd starts containerd with a configuration of its own, waits until it
// answers and imports the images.
func (c *Cluster) startContainerd(ctx context.Context) (*controlplane.Process, error) {
	folder := filepath.Join(c.dir, "containerd")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "config.toml")
	text := fmt.Sprintf(containerdConfig, folder, c.images.Pause, filepath.Join(c.dir, "cni"), c.cdi(), filepath.Join(c.containerd, "containerd-shim-runc-v2"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := c.Run(filepath.Join(c.containerd, "containerd"), "--config="+config)
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
	return output(ctx, filepath.Join(c.containerd, "ctr"), append([]string{"--address=" + c.socket(), "--namespace=k8s.io"}, args...)...)
}

// endTasks kills every container that runs. An error means that one may be left: the
// process namespace ends it.
func (c *Cluster) endTasks(ctx context.Context) error {
	list, err := c.ctr(ctx, "tasks", "list", "--quiet")
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(list) {
		// The containers of a pod share a shim: it may end with the one before, and then answers
		// no more.
		_, err := c.ctr(ctx, "tasks", "delete", "--force", id)
		if err != nil && !strings.Contains(err.Error(), "not found") && !strings.Contains(err.Error(), "ttrpc: closed") {
			return err
		}
	}
	return nil
}
