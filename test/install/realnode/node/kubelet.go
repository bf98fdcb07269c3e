package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berthdev/berth/test/support/controlplane"
)

// kubeletConfig has the cluster's folder, the containerd socket and the cgroup of all
// pods. Cgroups are flat, which works on machines with cgroup v1 and v2 alike.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: %[3]s
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
healthzBindAddress: 127.0.0.1
containerRuntimeEndpoint: unix://%[2]s
podLogsDir: %[1]s/pod-logs
staticPodPath: %[1]s/static-pods
fileCheckFrequency: 1s
volumePluginDir: %[1]s/volume-plugins
resolvConf: %[1]s/resolv.conf
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%}
maxPods: 200
registryPullQPS: 0
`

// StaticPods returns the folder of the kubelet's static pods.
func (c *Cluster) StaticPods() string { return filepath.Join(c.dir, "static-pods") }

// PodLogs returns the folder of the containers' logs.
func (c *Cluster) PodLogs() string { return filepath.Join(c.dir, "pod-logs") }

// startKubelet starts the kubelet with the rights of a node.
func (c *Cluster) startKubelet(ctx context.Context) (*controlplane.Process, error) {
	for _, folder := range []string{c.StaticPods(), c.PodLogs(), c.root()} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, "resolv.conf"), nil, 0o644); err != nil {
		return nil, err
	}
	config := filepath.Join(c.dir, "kubelet.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeletConfig, c.dir, c.socket(), Cgroup()), 0o644); err != nil {
		return nil, err
	}
	kubeconfig, err := c.nodeKubeconfig()
	if err != nil {
		return nil, err
	}
	p, err := c.Run(c.kubelet,
		"--config="+config,
		"--kubeconfig="+kubeconfig,
		"--hostname-override="+Name,
		"--node-ip="+gateway,
		"--root-dir="+c.root(),
		"--cert-dir="+filepath.Join(c.dir, "kubelet-certs"),
	)
	if err != nil {
		return nil, err
	}
	return p, p.Until(ctx, c.nodeReady)
}

func (c *Cluster) root() string { return filepath.Join(c.dir, "kubelet") }

// nodeKubeconfig writes a kubeconfig that has the rights of the node and no others,
// which the administrator impersonates, and returns its path.
func (c *Cluster) nodeKubeconfig() (string, error) {
	config := c.Config()
	out := clientcmdapi.NewConfig()
	out.Clusters[Name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[Name] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, Impersonate: "system:node:" + Name, ImpersonateGroups: []string{"system:nodes", "system:authenticated"},
	}
	out.Contexts[Name] = &clientcmdapi.Context{Cluster: Name, AuthInfo: Name}
	out.CurrentContext = Name
	path := filepath.Join(c.dir, "kubelet.kubeconfig")
	return path, clientcmd.WriteToFile(*out, path)
}

// nodeReady returns nil once pods can be scheduled to the real node.
func (c *Cluster) nodeReady(ctx context.Context) error {
	node, err := c.Client().CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node has taints: %v", node.Spec.Taints)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		} else if condition.Type == corev1.NodeReady {
			return fmt.Errorf("the node is not Ready: %s", condition.Message)
		}
	}
	return errors.New("the node has no condition Ready yet")
}

// Specifications returns the paths of the CDI specifications: one for each claim that is
// prepared.
func (c *Cluster) Specifications() ([]string, error) {
	return filepath.Glob(filepath.Join(c.cdi(), "*"))
}

// StartDeviceDriver starts test/support/devicedriver, built at path, as the plugin of the
// real node, with the rights of the node. It returns when the devices are published.
func (c *Cluster) StartDeviceDriver(ctx context.Context, path, driver string, devices int) (*controlplane.Process, error) {
	kubeconfig, err := c.nodeKubeconfig()
	if err != nil {
		return nil, err
	}
	p, err := c.Run(path, "kubelet", "--kubeconfig="+kubeconfig, "--node="+Name, "--driver="+driver,
		fmt.Sprintf("--devices=%d", devices), "--kubelet-dir="+c.root(), "--cdi-dir="+c.cdi())
	if err != nil {
		return nil, err
	}
	return p, p.Until(ctx, func(ctx context.Context) error {
		slices, err := c.Client().ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + driver})
		if err == nil && len(slices.Items) == 0 {
			err = fmt.Errorf("there is no ResourceSlice of driver %s", driver)
		}
		return err
	})
}

// podsEndLimit bounds the deletion of the pods, which endTasks does not wait for.
const podsEndLimit = 20 * time.Second

// endPods deletes every pod of the real node, without a grace period.
func (c *Cluster) endPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, podsEndLimit)
	defer cancel()
	pods := c.Client().CoreV1().Pods("")
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + Name})
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := c.Client().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now); err != nil {
			return err
		}
	}
	return nil
}
