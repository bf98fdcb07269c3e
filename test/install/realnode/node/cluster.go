package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
}

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
	// Kubelet is the path of the kubelet.
	Kubelet string
	Images  Images
	// KubeScheduler runs kube-scheduler, for pods that name no other scheduler.
	KubeScheduler bool
	// FakeNodes is how many KWOK nodes there are.
	FakeNodes int
}

// Cluster is a cluster that runs. Its methods may be called until Stop.
type Cluster struct {
	*controlplane.ControlPlane
	dir, kubelet string
	images       Images
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
	c := &Cluster{ControlPlane: cp, dir: options.Dir, kubelet: options.Kubelet, images: options.Images}
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

// Install runs `make deploy` for a folder under config, with the image of the manager.
func (c *Cluster) Install(ctx context.Context, config string) error {
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
