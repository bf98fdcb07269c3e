package check

import (
	"cmp"
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

const (
	// reasonProfilePaused is the only reason that is not a failure: a user asked for it.
	reasonProfilePaused  = "ProfilePaused"
	reasonProfileDeleted = "ProfileDeleted"
)

// holdReasons are the reasons of the condition PodScheduled of pods that Berth holds.
var holdReasons = []string{reasonProfileDeleted, reasonProfilePaused, "NamespaceNotAllowed", "Unsupported", "ProfileNotRunning", "Quarantined"}

// profileAndReason is the profile of held pods and the reason of their condition
// PodScheduled.
type profileAndReason struct{ profile, reason string }

// heldPods are the held pods of one profile and reason.
type heldPods struct {
	count int
	// first is the pod whose namespace and name come first, message that of its condition.
	first, message string
}

// heldPodsByReason are the held pods by profile and reason.
type heldPodsByReason map[profileAndReason]heldPods

// add counts a pod if it is held.
func (h heldPodsByReason) add(pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && slices.Contains(holdReasons, c.Reason)
	})
	if i < 0 || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	condition, name := pod.Status.Conditions[i], pod.Namespace+"/"+pod.Name
	key := profileAndReason{pod.Spec.SchedulerName, condition.Reason}
	pods := h[key]
	if pods.count++; pods.count == 1 || name < pods.first {
		pods.first, pods.message = name, condition.Message
	}
	h[key] = pods
}

// anyProfileDeleted reports whether a pod is held because its profile was deleted: its
// schedulerName is not served.
func (h heldPodsByReason) anyProfileDeleted() bool {
	for key := range h {
		if key.reason == reasonProfileDeleted {
			return true
		}
	}
	return false
}

// report adds a finding for each profile and reason: a failure, unless a user paused the
// profile.
func (h heldPodsByReason) report(r *report) {
	for _, key := range slices.SortedFunc(maps.Keys(h), func(a, b profileAndReason) int {
		return cmp.Or(cmp.Compare(a.profile, b.profile), cmp.Compare(a.reason, b.reason))
	}) {
		add, pods := r.fail, h[key]
		if key.reason == reasonProfilePaused {
			add = r.note
		}
		add("pods", "%s of profile %s held (first: %s): %s: %s", show.Count(pods.count, "pod"), key.profile, pods.first, key.reason, pods.message)
	}
}
