package fakecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// CoreV1 returns a client for the pods, volumes and claims of the cluster.
func (c *Cluster) CoreV1() corev1.CoreV1Interface { return core{c.Interface.CoreV1(), c} }

type core struct {
	corev1.CoreV1Interface
	cluster *Cluster
}

func (k core) Pods(namespace string) corev1.PodInterface {
	return pods{k.CoreV1Interface.Pods(namespace), k.cluster, namespace}
}

type pods struct {
	corev1.PodInterface
	cluster   *Cluster
	namespace string
}

func (p pods) Get(ctx context.Context, name string, _ metav1.GetOptions) (pod *v1.Pod, err error) {
	err = p.cluster.call(ctx, "get", name, func() error {
		if pod = p.cluster.storedPod(p.namespace, name); pod == nil {
			return apierrors.NewNotFound(podResource.GroupResource(), name)
		}
		return nil
	})
	return pod, err
}

// precondition returns an error if a write must not be executed.
func (p pods) precondition(pod *v1.Pod, name string, uid types.UID, version string) error {
	switch {
	case pod == nil:
		return apierrors.NewNotFound(podResource.GroupResource(), name)
	case uid != "" && uid != pod.UID:
		return apierrors.NewConflict(podResource.GroupResource(), name, fmt.Errorf("the UID is %s, not %s", pod.UID, uid))
	case version != "" && version != pod.ResourceVersion:
		return apierrors.NewConflict(podResource.GroupResource(), name, fmt.Errorf("the version is %s, not %s", pod.ResourceVersion, version))
	}
	return nil
}

func (p pods) Bind(ctx context.Context, binding *v1.Binding, _ metav1.CreateOptions) error {
	return p.cluster.call(ctx, "bind", binding.Name+" "+binding.Target.Name, func() error {
		pod := p.cluster.storedPod(p.namespace, binding.Name)
		if err := p.precondition(pod, binding.Name, binding.UID, binding.ResourceVersion); err != nil {
			return err
		}
		if pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" {
			return apierrors.NewConflict(podResource.GroupResource(), pod.Name, fmt.Errorf("the pod is deleted or assigned already"))
		}
		pod.Spec.NodeName = binding.Target.Name
		for key, value := range binding.Annotations {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[key] = value
		}
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
		p.cluster.updatePod(pod)
		return nil
	})
}

func (p pods) Patch(ctx context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, subresources ...string) (patched *v1.Pod, err error) {
	err = p.cluster.call(ctx, "patch", name, func() error {
		pod := p.cluster.storedPod(p.namespace, name)
		var pre v1.Pod
		if err := json.Unmarshal(patch, &pre); err != nil {
			return err
		}
		if err := p.precondition(pod, name, pre.UID, pre.ResourceVersion); err != nil {
			return err
		}
		original, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		merged, err := strategicpatch.StrategicMergePatch(original, patch, v1.Pod{})
		if err != nil {
			return err
		}
		patched = &v1.Pod{}
		if err := json.Unmarshal(merged, patched); err != nil {
			return err
		}
		if slices.Equal(subresources, []string{"status"}) {
			patched.Spec = pod.Spec
		}
		p.cluster.updatePod(patched)
		return nil
	})
	return patched, err
}

// Delete deletes a pod. With TerminateGracefully it sets the deletion timestamp of a
// pod that has a node.
func (p pods) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return p.cluster.call(ctx, "delete", name, func() error {
		pod := p.cluster.storedPod(p.namespace, name)
		var uid types.UID
		if o.Preconditions != nil && o.Preconditions.UID != nil {
			uid = *o.Preconditions.UID
		}
		if err := p.precondition(pod, name, uid, ""); err != nil {
			return err
		}
		if !p.cluster.graceful || pod.Spec.NodeName == "" {
			return p.cluster.tracker.Delete(podResource, pod.Namespace, pod.Name)
		}
		if pod.DeletionTimestamp == nil {
			now := metav1.NewTime(time.Now())
			pod.DeletionTimestamp = &now
			p.cluster.updatePod(pod)
		}
		return nil
	})
}
