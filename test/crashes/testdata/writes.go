// Package writes has writes by clients of each kind, and calls that look like them.
package writes

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func typed(ctx context.Context, c kubernetes.Interface) {
	pods := c.CoreV1().Pods("shop")
	_, _ = pods.Create(ctx, &v1.Pod{}, metav1.CreateOptions{})
	_, _ = pods.Create(ctx, &v1.Pod{}, metav1.CreateOptions{})
	const subresource = "status"
	_, _ = pods.Patch(ctx, "web", types.MergePatchType, nil, metav1.PatchOptions{}, subresource)
	_, _ = c.ResourceV1().ResourceClaims("shop").UpdateStatus(ctx, nil, metav1.UpdateOptions{})
	_ = pods.Bind(ctx, &v1.Binding{}, metav1.CreateOptions{})
	_ = pods.EvictV1(ctx, &policyv1.Eviction{})
	_ = c.NetworkingV1().NetworkPolicies("shop").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	_, _ = pods.Get(ctx, "web", metav1.GetOptions{})
}

type embedded struct{ coordinationv1.LeaseInterface }

func (e embedded) update(ctx context.Context) {
	_, _ = e.Update(ctx, nil, metav1.UpdateOptions{})
}

func untyped(ctx context.Context, c dynamic.ResourceInterface) {
	_, _ = c.Patch(ctx, "web", types.MergePatchType, nil, metav1.PatchOptions{})
	_ = c.Delete(ctx, "web", metav1.DeleteOptions{})
}

func request(ctx context.Context, c rest.Interface) {
	do(c.Post().Namespace("shop").Resource("things").Name("web").SubResource("status"))
	do(c.Get().Resource("things"))
	do(c.Delete())
}

func do(*rest.Request) {}

func generic(ctx context.Context, c client.Client, status runtime.ApplyConfiguration) {
	_ = c.Create(ctx, &v1.Pod{})
	_ = c.Status().Apply(ctx, status)
	_ = c.Status().Update(ctx, &v1.Pod{})
	_ = c.DeleteAllOf(ctx, &v1.Pod{})
}

func lock(ctx context.Context, l resourcelock.Interface) {
	_ = l.Update(ctx, resourcelock.LeaderElectionRecord{})
}

func value(c kubernetes.Interface) func(context.Context, string, metav1.DeleteOptions) error {
	return c.CoreV1().Nodes().Delete
}

// memory writes nothing to the API server.
func memory(store cache.Store) {
	_ = store.Update("web")
	_ = store.Delete("web")
	sets.New("web").Delete("web")
}
