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

// notReady returns why a profile is not Ready; an empty reason if it is.
func notReady(p *v1alpha1.SchedulingProfile) (reason, message string) {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case c == nil || c.ObservedGeneration < p.Generation:
		return "NotObserved", "Berth has not observed this generation yet"
	case c.Status == metav1.ConditionTrue:
		return "", ""
	}
	return c.Reason, c.Message
}

// checkPods reports pending pods whose schedulerName no scheduler serves, and pods that
// Berth holds.
func (o *options) checkPods(ctx context.Context, r *report, profiles []string) {
	unservedPods := map[string][]string{} // by schedulerName
	holds := heldPodsByReason{}
	err := o.eachObject(ctx, &corev1.PodList{}, func(object client.Object) {
		pod := object.(*corev1.Pod)
		name := pod.Spec.SchedulerName
		holds.add(pod)
		if unserved.IsUnserved(pod, o.Now()) && name != corev1.DefaultSchedulerName && !slices.Contains(profiles, name) {
			unservedPods[name] = append(unservedPods[name], pod.Namespace+"/"+pod.Name)
		}
	}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", "")})
	for name := range unservedPods {
		if err == nil {
			err = o.removeServed(ctx, unservedPods, name)
		}
	}
	if err != nil {
		r.failed("pods", "%v", cluster.UserError(err))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(unservedPods)) {
		r.fail("pods", "%s pending with a schedulerName that no scheduler serves (first: %s): %s", show.Count(len(unservedPods[name]), "pod"), unservedPods[name][0], cluster.ProfileNotFound(name, profiles))
	}
	if len(unservedPods) == 0 && !holds.anyProfileDeleted() {
		r.ok("pods", "no pending pod has a schedulerName that no scheduler serves")
	}
	holds.report(r)
}

// removeServed removes a schedulerName that a bound pod has: the scheduler that bound the
// pod serves it.
func (o *options) removeServed(ctx context.Context, unservedPods map[string][]string, name string) error {
	return o.eachObject(ctx, &corev1.PodList{}, func(object client.Object) {
		if object.(*corev1.Pod).Spec.NodeName != "" {
			delete(unservedPods, name)
		}
	}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.schedulerName", name)})
}

// pageSize is how many objects are listed at a time.
const pageSize = 500

// eachObject calls do with every object of a kind, page by page.
func (o *options) eachObject(ctx context.Context, list client.ObjectList, do func(client.Object), some ...client.ListOption) error {
	for token := ""; ; {
		if err := o.cluster.Client.List(ctx, list, append(some, client.Limit(pageSize), client.Continue(token))...); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			do(item.(client.Object))
			return nil
		})
		if token = list.GetContinue(); err != nil || token == "" {
			return err
		}
	}
}
