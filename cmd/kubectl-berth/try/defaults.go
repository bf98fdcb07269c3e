package try

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

func mentionsDryRun(err error) bool { return strings.Contains(err.Error(), "dry run") }

// applyDefaults sets the defaults of the API server that schedulers read. left says what
// else is missing, for the end of a sentence.
func (o *options) applyDefaults(ctx context.Context, pod *v1.Pod) (left string, err error) {
	spec := &pod.Spec
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			fillContainer(&containers[i], spec.HostNetwork)
		}
	}
	if spec.Resources != nil {
		defaultRequests(spec.Resources)
	}
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		addToleration(spec, key)
	}
	if left, err = o.setPriority(ctx, pod); err != nil {
		return "", err
	}
	if affinity := spec.Affinity; affinity != nil && hasLabelKeys(affinity) {
		left += "; nor matchLabelKeys and mismatchLabelKeys of its affinity"
	}
	return left, nil
}

func fillContainer(c *v1.Container, hostNetwork bool) {
	defaultRequests(&c.Resources)
	for i := range c.Ports {
		port := &c.Ports[i]
		if port.Protocol == "" {
			port.Protocol = v1.ProtocolTCP
		}
		if hostNetwork && port.HostPort == 0 {
			port.HostPort = port.ContainerPort
		}
	}
}

// defaultRequests sets requests to the limits of resources without a request.
func defaultRequests(r *v1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// addToleration adds the toleration of 300 seconds for a node that is not ready or
// unreachable.
func addToleration(spec *v1.PodSpec, key string) {
	for _, t := range spec.Tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "") {
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations, v1.Toleration{
		Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300),
	})
}

// setPriority sets the priority of the PriorityClass of the pod, or of the default one.
func (o *options) setPriority(ctx context.Context, pod *v1.Pod) (left string, err error) {
	name := pod.Spec.PriorityClassName
	var class *schedulingv1.PriorityClass
	err = o.reader().ListEach(ctx, &schedulingv1.PriorityClassList{}, func(one state.Object) {
		c := one.(*schedulingv1.PriorityClass)
		// The API server takes the lowest of several defaults.
		if c.Name == name || name == "" && c.GlobalDefault && (class == nil || c.Value < class.Value) {
			class = c
		}
	})
	switch {
	case apierrors.IsForbidden(err) && name != "":
		return "", fmt.Errorf("spec.priorityClassName: you may not list priorityclasses, so the priority of %q is unknown: %w", name, cluster.UserError(err))
	case apierrors.IsForbidden(err):
		return "; you may not list priorityclasses, so the priority is spec.priority, or 0", nil
	case err != nil:
		return "", fmt.Errorf("priorityclasses: %w", cluster.UserError(err))
	case class == nil && name != "":
		return "", fmt.Errorf("spec.priorityClassName: PriorityClass %q not found", name)
	case class == nil:
		pod.Spec.Priority = ptr.To[int32](0)
		return "", nil
	}
	pod.Spec.PriorityClassName, pod.Spec.Priority = class.Name, ptr.To(class.Value)
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = class.PreemptionPolicy
	}
	return "", nil
}

// hasLabelKeys reports whether terms of the affinity have keys that the API server turns
// into selectors.
func hasLabelKeys(affinity *v1.Affinity) bool {
	var terms []v1.PodAffinityTerm
	add := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, p := range preferred {
			terms = append(terms, p.PodAffinityTerm)
		}
	}
	if a := affinity.PodAffinity; a != nil {
		add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		add(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for _, term := range terms {
		if len(term.MatchLabelKeys)+len(term.MismatchLabelKeys) > 0 {
			return true
		}
	}
	return false
}
