package lint

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/scheduler/compile"
)

const (
	// clusterTimeout bounds the time that the cluster is asked: lint is for files, and for CI.
	clusterTimeout = 5 * time.Second
	// maxPods is the most pods with a schedulerName that are read.
	maxPods = 500
)

// clusterInfo is what the cluster knows of other schedulers.
type clusterInfo struct {
	names    []string
	givenBy  string
	lease    string
	evidence map[string][]string
	// unreadable is the first error; nil if everything could be read.
	unreadable error
}

// addClusterInfo adds to k what the cluster knows. It prints what cannot be read, which is
// no error.
func (o *options) addClusterInfo(ctx context.Context, profiles []*v1alpha1.SchedulingProfile, k *otherSchedulers) {
	a, err := askCluster(ctx, func(ctx context.Context) clusterInfo { return o.readCluster(ctx, profiles, k.lease) })
	if err == nil {
		err = a.unreadable
	}
	if err != nil {
		fmt.Fprintln(o.ErrOut, show.Wrap("Cannot tell whether another scheduler serves the names (--offline skips this): "+err.Error(), "", "  "))
	}
	k.evidence = a.evidence
	if k.givenBy == "" {
		k.names, k.givenBy = a.names, a.givenBy
	}
	if k.lease == "" {
		k.lease = a.lease
	}
}

// askCluster returns the answer of ask, or an error after clusterTimeout: a credential plugin
// does not end with the context.
func askCluster[T any](ctx context.Context, ask func(context.Context) T) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	answered := make(chan T, 1)
	go func() { answered <- ask(ctx) }()
	select {
	case answer = <-answered:
		return answer, nil
	case <-ctx.Done():
		return answer, fmt.Errorf("no answer within %v", clusterTimeout)
	}
}

// readCluster reads what the cluster knows; lease is the value of --other-scheduler-lease.
func (o *options) readCluster(ctx context.Context, profiles []*v1alpha1.SchedulingProfile, lease string) (a clusterInfo) {
	a.evidence = map[string][]string{}
	c, err := o.Open(ctx)
	if err != nil {
		a.unreadable = err
		return a
	}
	list := &v1alpha1.SchedulingProfileList{}
	if err := c.Client.List(ctx, list); err != nil && !cluster.IsKindNotServed(err) {
		a.unreadable = cluster.UserError(err)
		return a
	}
	there := map[string]*v1alpha1.SchedulingProfile{}
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	failed := func(err error) {
		if err != nil && a.unreadable == nil {
			a.unreadable = cluster.UserError(err)
		}
	}
	failed(a.readFlags(ctx, c))
	if lease == "" {
		lease = a.lease
	}
	for _, p := range profiles {
		texts, err := o.podEvidence(ctx, c, p, there[p.Name])
		failed(err)
		if p.Name == corev1.DefaultSchedulerName {
			text, err := o.leaseHolder(ctx, c, lease)
			failed(err)
			if text != "" {
				texts = append(texts, text)
			}
		}
		a.evidence[p.Name] = texts
	}
	return a
}

// readFlags reads the manager's flags from Berth's Deployments.
func (a *clusterInfo) readFlags(ctx context.Context, c *cluster.Cluster) error {
	list := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.BerthNamespace), client.MatchingLabels{"app.kubernetes.io/name": "berth"}); err != nil {
		return err
	}
	for i := range list.Items {
		d := &list.Items[i]
		for _, container := range d.Spec.Template.Spec.Containers {
			if names, ok := flagValue(container, "other-schedulers"); ok {
				a.names, a.givenBy = strings.Split(names, ","), fmt.Sprintf("--other-schedulers of Deployment %s/%s", d.Namespace, d.Name)
			}
			if lease, ok := flagValue(container, "other-scheduler-lease"); ok {
				a.lease = lease
			}
		}
	}
	return nil
}

// flagValue returns the value of a flag of a container, given as --name=value or as two
// arguments.
func flagValue(container corev1.Container, name string) (value string, ok bool) {
	arguments := append(append([]string{}, container.Command...), container.Args...)
	for i, argument := range arguments {
		if value, ok := strings.CutPrefix(argument, "--"+name+"="); ok {
			return value, true
		}
		if argument == "--"+name && i+1 < len(arguments) {
			return arguments[i+1], true
		}
	}
	return "", false
}

// leaseHolder returns a warning if the Lease of the scheduler that serves default-scheduler
// is held; otherwise nothing.
func (o *options) leaseHolder(ctx context.Context, c *cluster.Cluster, name string) (string, error) {
	if name == leaseNone {
		return "", nil
	}
	if name == "" {
		name = defaultLease
	}
	namespace, name, _ := strings.Cut(name, "/")
	lease := &coordinationv1.Lease{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, lease)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), metav1.Time(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}))
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
	if holder == "" || renewed.Add(lasts).Before(o.Now()) {
		return "", nil
	}
	return fmt.Sprintf("%s holds Lease %s/%s, renewed %s ago: another scheduler that serves this name is running; stop it before Berth takes over",
		holder, namespace, name, show.Age(renewed, o.Now())), nil
}

// podEvidence returns warnings from the pods with the name of a profile as their
// schedulerName; there is the profile of that name in the cluster, nil for none.
func (o *options) podEvidence(ctx context.Context, c *cluster.Cluster, p, there *v1alpha1.SchedulingProfile) (texts []string, err error) {
	if there != nil {
		refused := meta.FindStatusCondition(there.Status.Conditions, string(v1alpha1.ConditionAccepted))
		if refused != nil && refused.Status == metav1.ConditionFalse && refused.Reason == string(v1alpha1.ReasonNameServedElsewhere) {
			texts = append(texts, "the profile in the cluster has the condition Accepted=False: "+refused.Message)
		}
		if there.Spec.Decisions.Annotate == v1alpha1.Disabled {
			return texts, nil // its pods have no annotation that tells who bound them
		}
	}
	pods := &corev1.PodList{}
	err = c.Client.List(ctx, pods, client.Limit(maxPods), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.schedulerName", p.Name)})
	if err != nil {
		return texts, err
	}
	bound, handled := "", ""
	n := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		name := pod.Namespace + "/" + pod.Name
		switch scheduled := podScheduled(pod); {
		case pod.Spec.NodeName != "" && boundByOther(pod, there):
			if n++; bound == "" {
				bound = name
			}
		case pod.Spec.NodeName == "" && there == nil && scheduled != nil && scheduled.Status == corev1.ConditionFalse && !isBerthReason(scheduled.Reason) && handled == "":
			handled = fmt.Sprintf("%s has the condition PodScheduled=False (%s)", name, scheduled.Reason)
		}
	}
	switch {
	case bound != "":
		texts = append(texts, fmt.Sprintf("another scheduler binds pods with spec.schedulerName %s: %s without Berth's annotation %s, such as %s",
			p.Name, show.Count(n, "bound pod"), v1alpha1.AnnotationDecision, bound))
	case handled != "":
		texts = append(texts, fmt.Sprintf("another scheduler handles pods with spec.schedulerName %s: no SchedulingProfile has that name, and pod %s", p.Name, handled))
	}
	return texts, nil
}

// boundByOther reports whether another scheduler than Berth bound a pod: the pod has no
// annotation of Berth, is not a static pod, which no scheduler binds, was bound after the
// profile was created, and is none that an extender of the profile binds, which writes no
// annotation.
func boundByOther(pod *corev1.Pod, there *v1alpha1.SchedulingProfile) bool {
	_, annotated := pod.Annotations[v1alpha1.AnnotationDecision]
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	byExtender := there != nil && compile.BindingExtender(there, pod) != ""
	return !annotated && !static && !byExtender && boundAfterCreation(podScheduled(pod), there)
}

// boundAfterCreation reports whether a pod was bound after its profile was created; true if
// there is no profile.
func boundAfterCreation(scheduled *corev1.PodCondition, there *v1alpha1.SchedulingProfile) bool {
	return there == nil || scheduled != nil && scheduled.LastTransitionTime.After(there.CreationTimestamp.Time)
}

// isBerthReason reports whether Berth is the only scheduler that sets this reason.
func isBerthReason(reason string) bool {
	switch reason {
	case "ProfileDeleted", "ProfilePaused", "NamespaceNotAllowed", "Unsupported", "ProfileNotRunning", "Quarantined":
		return true
	}
	return reason == corev1.PodReasonSchedulingGated // which the API server sets
}

func podScheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
