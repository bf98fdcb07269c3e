package check

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/unserved"
)

// notReady says why a profile is not; no reason for one that is.
func notReady(p *v1alpha1.SchedulingProfile) (reason, message string) {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case c == nil || c.ObservedGeneration < p.Generation:
		return "NotLookedAt", "nobody has looked at this generation yet"
	case c.Status == metav1.ConditionTrue:
		return "", ""
	}
	return c.Reason, c.Message
}

// unserved tells pods that wait for a scheduler which is not there, and those that Berth
// holds.
func (o *options) checkPods(ctx context.Context, r *report, profiles []string) {
	alone := map[string][]string{} // by schedulerName
	holds := heldPodsByReason{}
	err := o.eachObject(ctx, &corev1.PodList{}, func(object client.Object) {
		pod := object.(*corev1.Pod)
		name := pod.Spec.SchedulerName
		holds.add(pod)
		if unserved.IsUnserved(pod, o.Now()) && name != corev1.DefaultSchedulerName && !slices.Contains(profiles, name) {
			alone[name] = append(alone[name], pod.Namespace+"/"+pod.Name)
		}
	}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", "")})
	for name := range alone {
		if err == nil {
			err = o.removeServed(ctx, alone, name)
		}
	}
	if err != nil {
		r.failed("pods", "%v", cluster.UserError(err))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		r.wrong("pods", "%s for a name that nobody serves, %s first: %s", show.Count(len(alone[name]), "pod")+" waiting", alone[name][0], cluster.ProfileNotFound(name, profiles))
	}
	if len(alone) == 0 && !holds.anyProfileDeleted() {
		r.ok("pods", "none waits for a name that nobody serves")
	}
	holds.report(r)
}

// forget takes a name away that a bound pod carries: who bound that one serves it.
func (o *options) removeServed(ctx context.Context, alone map[string][]string, name string) error {
	return o.eachObject(ctx, &corev1.PodList{}, func(object client.Object) {
		if object.(*corev1.Pod).Spec.NodeName != "" {
			delete(alone, name)
		}
	}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.schedulerName", name)})
}

// page is how many objects are asked for at a time.
const pageSize = 500

// each calls do with every object of a kind, page by page.
func (o *options) eachObject(ctx context.Context, list client.ObjectList, do func(client.Object), some ...client.ListOption) error {
	for more := ""; ; {
		if err := o.cluster.Client.List(ctx, list, append(some, client.Limit(pageSize), client.Continue(more))...); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			do(item.(client.Object))
			return nil
		})
		if more = list.GetContinue(); err != nil || more == "" {
			return err
		}
	}
}
