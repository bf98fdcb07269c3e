package integration

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// What extenders answer. Each holds the names and UIDs that objects had, and not
// the objects: the spec reads those anew meanwhile.

// only lets some nodes through.
func only(nodes ...*v1.Node) func(string) (bool, string, bool) {
	let := sets.New[string]()
	for _, n := range nodes {
		let.Insert(n.Name)
	}
	return func(name string) (bool, string, bool) { return let.Has(name), "the rack is locked", true }
}

// preferring gives one node all points, and others so few.
func preferring(favourite *v1.Node, others int64) func(string) int64 {
	best := favourite.Name
	return func(name string) int64 {
		if name == best {
			return extenderv1.MaxExtenderPriority
		}
		return others
	}
}

// clearing has one node cleared, of one pod.
func clearing(node *v1.Node, of *v1.Pod) func(extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
	name, victim := node.Name, &extenderv1.MetaPod{UID: string(of.UID)}
	return func(extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
		return map[string]*extenderv1.MetaVictims{name: {Pods: []*extenderv1.MetaPod{victim}}}
	}
}

// binder binds as an extender that may.
func binder(ctx context.Context) func(extenderv1.ExtenderBindingArgs) string {
	return func(args extenderv1.ExtenderBindingArgs) string {
		err := admin.SubResource("binding").Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName}},
			&v1.Binding{ObjectMeta: metav1.ObjectMeta{UID: args.PodUID}, Target: v1.ObjectReference{Kind: "Node", Name: args.Node}})
		if err != nil {
			return err.Error()
		}
		return ""
	}
}
