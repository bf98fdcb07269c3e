package try

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// admit makes the pod what it would be after its creation: with a dry run, or, if that is
// not allowed, with the defaults that are known here.
func (o *options) admit(ctx context.Context, s *subject, live *state.State) error {
	s.replacePending(live)
	why := "you may not create pods in namespace " + s.pod.Namespace
	if o.mayCreate(ctx, s.pod.Namespace) {
		admitted, err := o.dryRun(ctx, s.pod)
		if err == nil {
			admitted.UID, admitted.Name, admitted.GenerateName = s.pod.UID, s.pod.Name, ""
			admitted.Status.NominatedNodeName = s.pod.Status.NominatedNodeName
			s.pod = admitted
			return nil
		}
		if !errors.Is(err, errNoDryRun) {
			return err
		}
		why = err.Error()
	}
	left, err := o.applyDefaults(ctx, s.pod)
	if err != nil {
		return err
	}
	o.note("%s, so there is no dry run: the defaults of the API server are set here, but not what webhooks, LimitRanges and RuntimeClasses change%s", why, left)
	return nil
}

// mayCreate reports whether the user may create pods.
func (o *options) mayCreate(ctx context.Context, namespace string) bool {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Version: "v1", Resource: "pods"},
	}}
	return o.cluster.Client.Create(ctx, review) == nil && review.Status.Allowed
}

// errNoDryRun means that a webhook does not support dry runs.
var errNoDryRun = errors.New("a webhook does not support dry runs")

// dryRun returns the pod as the API server would store it. The dry run uses another name,
// since a pod of this name may exist.
func (o *options) dryRun(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	admitted := pod.DeepCopy()
	admitted.Name, admitted.GenerateName, admitted.UID, admitted.Status = "", pod.Name+"-", "", v1.PodStatus{}
	err := o.cluster.Client.Create(ctx, admitted, client.DryRunAll)
	switch {
	case err == nil:
		return admitted, nil
	case apierrors.IsBadRequest(err) && mentionsDryRun(err):
		return nil, fmt.Errorf("%w: %w", errNoDryRun, err)
	}
	return nil, fmt.Errorf("the API server would reject the pod: %w", cluster.UserError(err))
}

// replacePending replaces the pending pod of this name in the cluster, if there is one: a
// nomination of it is taken over.
func (s *subject) replacePending(live *state.State) {
	if s.controller != nil || s.count > 1 {
		return
	}
	for i, pod := range live.Pods {
		if pod.Namespace != s.pod.Namespace || pod.Name != s.pod.Name {
			continue
		}
		if pod.Spec.NodeName != "" {
			s.notes = append(s.notes, fmt.Sprintf("pod %s is bound to node %s already and stays there: the result is for another pod like it", pod.Name, pod.Spec.NodeName))
			return
		}
		s.notes = append(s.notes, "pod "+pod.Name+" is pending already: the pod of the file replaces it")
		s.replaced = pod
		s.pod.UID, s.pod.Status.NominatedNodeName = pod.UID, pod.Status.NominatedNodeName
		live.Pods = append(live.Pods[:i:i], live.Pods[i+1:]...)
		return
	}
}
