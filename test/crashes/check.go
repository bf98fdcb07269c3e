package crashes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/operator"
)

// check returns what is wrong after a scenario. It waits until nothing is, since status follows
// what happened.
func (s *Suite) check(ctx context.Context, e *env, t *trigger) []string {
	if err := e.probe(ctx); err != nil {
		return []string{"scheduling does not go on: " + err.Error()}
	}
	return append(s.checkUntilTrue(ctx, e, t.scenario), s.verdict(ctx, e, t)...)
}

// checkUntilTrue returns what the checks of the suite find, once that is nothing or after
// checkTimeout.
func (s *Suite) checkUntilTrue(ctx context.Context, e *env, of *scenario) []string {
	var last error
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, checkTimeout, true, func(ctx context.Context) (bool, error) {
		if err := e.checkNow(ctx, of); err == nil || ctx.Err() == nil {
			last = err
		}
		return last == nil, nil
	})
	if last == nil {
		return nil
	}
	return strings.Split(last.Error(), "\n")
}

// probePod is the name of the pod of probe.
const probePod = "probe"

// probe expects that the process that leads now binds one more pod.
func (e *env) probe(ctx context.Context) error {
	if err := e.createPods(ctx, e.pod(probePod, 0)); err != nil {
		return err
	}
	return e.bound(ctx, probePod)
}

// checkNow returns what is wrong at the moment.
func (e *env) checkNow(ctx context.Context, s *scenario) error {
	var pods v1.PodList
	if err := e.admin.List(ctx, &pods, client.InNamespace(e.id)); err != nil {
		return err
	}
	errs := []error{
		e.checkProfile(ctx, s),
		e.checkPods(ctx, pods.Items),
		e.checkClaims(ctx, pods.Items),
		e.checkVolumes(ctx),
		e.checkExplanations(ctx, pods.Items),
		e.checkJournal(ctx),
	}
	if s.expect != nil {
		errs = append(errs, s.expect(ctx, e))
	}
	return errors.Join(errs...)
}

// checkProfile checks the profile's status and revisions.
func (e *env) checkProfile(ctx context.Context, s *scenario) error {
	p, err := operator.Profile(ctx, e.cp, e.profile)
	if err != nil {
		return err
	}
	if p.Status.Programmed == nil || p.Status.Queue == nil {
		return fmt.Errorf("the profile's status is incomplete: %+v", p.Status)
	}
	var errs []error
	want := metav1.ConditionTrue
	if s.specRefused {
		want = metav1.ConditionFalse
	}
	errs = append(errs, expectCondition(p.Status.Conditions, p.Generation, v1alpha1.ConditionProgrammed, want))
	if !e.hashes[p.Status.Programmed.Hash] {
		errs = append(errs, fmt.Errorf("hash %s runs, which did not run before the crash", p.Status.Programmed.Hash))
	}
	return errors.Join(append(errs, e.checkRevisions(ctx, p))...)
}

// checkRevisions checks that what runs is stored, and that no build seems to be under way.
func (e *env) checkRevisions(ctx context.Context, p *v1alpha1.SchedulingProfile) error {
	revisions, err := e.revisions(ctx)
	if err != nil {
		return err
	}
	for i := range revisions {
		r := &revisions[i]
		if r.Name != p.Status.Programmed.Revision {
			continue
		}
		if _, building := r.Annotations[v1alpha1.AnnotationBuildBegun]; building {
			return fmt.Errorf("revision %s runs, and its build seems to be under way", r.Name)
		}
		if r.Labels[v1alpha1.LabelHash] != p.Status.Programmed.Hash {
			return fmt.Errorf("revision %s has hash %s, and %s runs", r.Name, r.Labels[v1alpha1.LabelHash], p.Status.Programmed.Hash)
		}
		return nil
	}
	return fmt.Errorf("revision %q runs, and is not stored", p.Status.Programmed.Revision)
}

// checkPods checks the annotations of bound pods, and the conditions of pending ones.
func (e *env) checkPods(ctx context.Context, pods []v1.Pod) error {
	lease, err := e.cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, operator.Lease, getOptions)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil {
			errs = append(errs, fmt.Errorf("%s is being deleted", podName(pod)))
		}
		if pod.Spec.NodeName == "" {
			if !hasReason(pod, v1.PodReasonUnschedulable) {
				errs = append(errs, fmt.Errorf("%s is pending, and its conditions are %+v", podName(pod), pod.Status.Conditions))
			}
			continue
		}
		d, err := decisionOf(pod)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", podName(pod), err))
		case d.Profile != e.profile || d.Node != pod.Spec.NodeName || !e.hashes[d.Hash] || d.Epoch > int64(*lease.Spec.LeaseTransitions):
			errs = append(errs, fmt.Errorf("%s is on %s, and its annotation says %+v; leader epoch %d", podName(pod), pod.Spec.NodeName, d, *lease.Spec.LeaseTransitions))
		}
	}
	return errors.Join(errs...)
}

// hasReason reports whether PodScheduled is False with a reason.
func hasReason(pod *v1.Pod, reason string) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == reason
	})
}

// checkClaims checks that each ResourceClaim is allocated and reserved for pods that use it on
// their node, and that no device belongs to two claims.
func (e *env) checkClaims(ctx context.Context, pods []v1.Pod) error {
	var claims resourceapi.ResourceClaimList
	if err := e.admin.List(ctx, &claims, client.InNamespace(e.id)); err != nil {
		return err
	}
	byUID, owners := map[types.UID]*v1.Pod{}, map[string]string{}
	for i := range pods {
		byUID[pods[i].UID] = &pods[i]
	}
	var errs []error
	for i := range claims.Items {
		claim := &claims.Items[i]
		fail := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("claim %s: "+format, append([]any{claim.Name}, args...)...))
		}
		if claim.Status.Allocation == nil || len(claim.Status.ReservedFor) != 1 {
			fail("allocation %v, reserved for %v: want one of each", claim.Status.Allocation != nil, claim.Status.ReservedFor)
			continue
		}
		pod := byUID[claim.Status.ReservedFor[0].UID]
		if pod == nil || pod.Spec.NodeName == "" {
			fail("is reserved for %+v, which does not run", claim.Status.ReservedFor[0])
			continue
		}
		if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			fail("is allocated, and has the finalizers %v", claim.Finalizers)
		}
		for _, device := range claim.Status.Allocation.Devices.Results {
			key := device.Pool + "/" + device.Device
			if device.Pool != pod.Spec.NodeName || owners[key] != "" {
				fail("has %s; its pod is on %s, and the device also belongs to %q", key, pod.Spec.NodeName, owners[key])
			}
			owners[key] = claim.Name
		}
	}
	return errors.Join(errs...)
}

// checkVolumes checks that each claim and its volume name each other.
func (e *env) checkVolumes(ctx context.Context) error {
	var claims v1.PersistentVolumeClaimList
	if err := e.admin.List(ctx, &claims, client.InNamespace(e.id)); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		claim := &claims.Items[i]
		v, err := e.cp.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, getOptions)
		switch {
		case claim.Spec.VolumeName == "":
			errs = append(errs, fmt.Errorf("claim %s has no volume", claim.Name))
		case err != nil:
			errs = append(errs, err)
		case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID:
			errs = append(errs, fmt.Errorf("claim %s has volume %s, which belongs to %+v", claim.Name, v.Name, v.Spec.ClaimRef))
		}
	}
	return errors.Join(errs...)
}

// checkExplanations checks that each pending pod has a SchedulingDecision. The checker finds those
// that are not true.
func (e *env) checkExplanations(ctx context.Context, pods []v1.Pod) error {
	var decisions v1alpha1.SchedulingDecisionList
	if err := e.admin.List(ctx, &decisions, client.InNamespace(e.id)); err != nil {
		return err
	}
	explained := map[string]bool{}
	for i := range decisions.Items {
		explained[decisions.Items[i].Name] = true
	}
	var errs []error
	for i := range pods {
		if pods[i].Spec.NodeName == "" && !explained[pods[i].Name] {
			errs = append(errs, fmt.Errorf("%s is pending, and has no SchedulingDecision", podName(&pods[i])))
		}
	}
	return errors.Join(errs...)
}

// checkJournal checks that the journal of Bindings is that of the leader.
func (e *env) checkJournal(ctx context.Context) error {
	journal, err := e.cp.Client().CoreV1().ConfigMaps(operator.Namespace).Get(ctx, journalName, getOptions)
	if err != nil {
		return err
	}
	lease, err := e.cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, operator.Lease, getOptions)
	if err != nil {
		return err
	}
	if want := strconv.Itoa(int(*lease.Spec.LeaseTransitions)); journal.Data["epoch"] != want || journal.Data["election"] != "lease" {
		return fmt.Errorf("the journal is of epoch %s (%s), and the Lease of %s", journal.Data["epoch"], journal.Data["election"], want)
	}
	return nil
}
