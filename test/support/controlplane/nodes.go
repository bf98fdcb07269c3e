package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
)

const (
	// fakeNodeAnnotation and fakeNode mark a node without a kubelet, as in KWOK's
	// documentation.
	fakeNodeAnnotation, fakeNode = "kwok.x-k8s.io/node", "fake"
	// nodeWorkers create nodes concurrently.
	nodeWorkers = 16
	// nodeLimit bounds the wait for Ready nodes: a minute, and more than what KWOK needs for
	// each node on a busy machine.
	nodeLimit     = time.Minute
	nodeLimitEach = 50 * time.Millisecond
)

// NodeOptions describe the nodes that Nodes creates.
type NodeOptions struct {
	// Prefix of the names: PREFIX-0, PREFIX-1, …; default "node".
	Prefix string
	// Zones is the number of values of topology.kubernetes.io/zone, which the nodes have in
	// turn: zone-0, zone-1, …; default 3.
	Zones int
	// CPU and Memory of a node, as quantities; default 4 and 32Gi.
	CPU, Memory string
	// Pods is the pod capacity of a node; default 110.
	Pods int
	// Change may modify the i-th node before it is created; may be nil.
	Change func(i int, node *corev1.Node)
}

func (o NodeOptions) withDefaults() NodeOptions {
	if o.Prefix == "" {
		o.Prefix = "node"
	}
	if o.Zones == 0 {
		o.Zones = 3
	}
	if o.CPU == "" {
		o.CPU = "4"
	}
	if o.Memory == "" {
		o.Memory = "32Gi"
	}
	if o.Pods == 0 {
		o.Pods = 110
	}
	return o
}

// node returns the i-th node. The quantities must have been validated.
func (o NodeOptions) node(i int) *corev1.Node {
	name := fmt.Sprintf("%s-%d", o.Prefix, i)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(o.CPU),
		corev1.ResourceMemory: resource.MustParse(o.Memory),
		corev1.ResourcePods:   *resource.NewQuantity(int64(o.Pods), resource.DecimalSI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:     name,
				corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%o.Zones),
				corev1.LabelOSStable:     "linux",
				corev1.LabelArchStable:   "amd64",
				"type":                   "kwok",
			},
			Annotations: map[string]string{fakeNodeAnnotation: fakeNode},
		},
		Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources.DeepCopy()},
	}
	if o.Change != nil {
		o.Change(i, node)
	}
	return node
}

// Nodes creates n nodes and returns when all are Ready and without the not-ready taint. Where
// KWOK or the controllers do not run, Nodes sets the condition and removes the taint.
func (cp *ControlPlane) Nodes(ctx context.Context, n int, options NodeOptions) error {
	options = options.withDefaults()
	for _, q := range []string{options.CPU, options.Memory} {
		if _, err := resource.ParseQuantity(q); err != nil {
			return fmt.Errorf("node options: %q: %w", q, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, nodeLimit+time.Duration(n)*nodeLimitEach,
		fmt.Errorf("%d nodes were not Ready in time", n))
	defer cancel()

	names := make([]string, n)
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, nodeWorkers, n, func(i int) {
		node := options.node(i)
		names[i] = node.Name
		errs[i] = cp.createNode(ctx, node)
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return cp.waitReady(ctx, names)
}

func (cp *ControlPlane) createNode(ctx context.Context, node *corev1.Node) error {
	if !cp.options.KWOK {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Declared",
			LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		})
	}
	taints := node.Spec.Taints
	created, err := cp.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil || cp.options.ControllerManager {
		return err
	}
	// Admission taints every new node; a controller would remove the taint.
	created.Spec.Taints = taints
	_, err = cp.client.CoreV1().Nodes().Update(ctx, created, metav1.UpdateOptions{})
	return err
}

// waitReady returns when all nodes accept pods.
func (cp *ControlPlane) waitReady(ctx context.Context, names []string) error {
	var lacking string
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := cp.Running(); err != nil {
			return false, err
		}
		// The watch cache answers this list, which is sent often.
		nodes, err := cp.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		ready := map[string]bool{} // name → accepts pods
		for i := range nodes.Items {
			ready[nodes.Items[i].Name] = takesPods(&nodes.Items[i])
		}
		for _, name := range names {
			if !ready[name] {
				lacking = name
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %s is not", context.Cause(ctx), lacking)
	}
	return err
}

func takesPods(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
