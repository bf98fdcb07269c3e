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
	"github.com/berthdev/berth/scheduler/decision"
)

const (
	// patience is how long the cluster is asked: lint is for files, and for CI.
	clusterTimeout = 5 * time.Second
	// sample bounds the pods of a name that are looked at.
	maxPods = 500
)

// answer is what the cluster says of the schedulers beside Berth.
type clusterInfo struct {
	names    []string
	givenBy  string
	lease    string
	evidence map[string][]string
	// unread says what could not be asked; nil: all was.
	unreadable error
}

// ask adds to k what the cluster knows. What cannot be read is said, and is no error.
func (o *options) addClusterInfo(ctx context.Context, profiles []*v1alpha1.SchedulingProfile, k *otherSchedulers) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	answered := make(chan clusterInfo, 1)
	// Discovery takes no context.
	go func() { answered <- o.readCluster(ctx, profiles, k.lease) }()
	var a clusterInfo
	select {
	case a = <-answered:
	case <-ctx.Done():
		a.unreadable = fmt.Errorf("it did not answer within %v", clusterTimeout)
	}
	if a.unreadable != nil {
		fmt.Fprintln(o.ErrOut, show.Wrap("The cluster does not say whether another scheduler serves the names (--offline does not ask): "+a.unreadable.Error(), "", "  "))
	}
	k.evidence = a.evidence
	if k.givenBy == "" {
		k.names, k.givenBy = a.names, a.givenBy
	}
	if k.lease == "" {
		k.lease = a.lease
	}
}

// answer asks the cluster; lease is that of the flag.
func (o *options) readCluster(ctx context.Context, profiles []*v1alpha1.SchedulingProfile, lease string) (a clusterInfo) {
	a.evidence = map[string][]string{}
	c, err := o.Open()
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

// flags reads those of the manager from Berth's Deployments.
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

// flag is the value of one of a container's flags, whether it follows a "=" or is the
// next argument.
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

// holder says who holds the Lease of the scheduler that serves default-scheduler; nothing
// where nobody does.
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
	return fmt.Sprintf("%s holds the Lease %s/%s, renewed %s ago: a scheduler that serves the name runs; stop it before Berth takes over",
		holder, namespace, name, show.Age(renewed, o.Now())), nil
}

// evidence is what pods of a name tell of who schedules them; there is the profile of
// that name in the cluster, nil for none.
func (o *options) podEvidence(ctx context.Context, c *cluster.Cluster, p, there *v1alpha1.SchedulingProfile) (texts []string, err error) {
	if there != nil {
		refused := meta.FindStatusCondition(there.Status.Conditions, string(v1alpha1.ConditionAccepted))
		if refused != nil && refused.Status == metav1.ConditionFalse && refused.Reason == string(v1alpha1.ReasonNameServedElsewhere) {
			texts = append(texts, "the cluster says of the profile as it is applied: "+refused.Message)
		}
		if there.Spec.Decisions.Annotate == v1alpha1.Disabled {
			return texts, nil // its pods do not say who bound them
		}
	}
	pods := &corev1.PodList{}
	err = c.Client.List(ctx, pods, client.Limit(maxPods), client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.schedulerName", p.Name)})
	if err != nil {
		return texts, err
	}
	bound, told := "", ""
	n := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		name := pod.Namespace + "/" + pod.Name
		switch scheduled := podScheduled(pod); {
		case pod.Spec.NodeName != "" && boundByOther(pod, there):
			if n++; bound == "" {
				bound = name
			}
		case pod.Spec.NodeName == "" && there == nil && scheduled != nil && scheduled.Status == corev1.ConditionFalse && !isBerthReason(scheduled.Reason) && told == "":
			told = fmt.Sprintf("%s has the condition PodScheduled=False, %s", name, scheduled.Reason)
		}
	}
	switch {
	case bound != "":
		texts = append(texts, fmt.Sprintf("another scheduler binds pods with spec.schedulerName %s: %s without Berth's annotation %s, such as %s",
			p.Name, show.Count(n, "bound pod"), decision.AnnotationKey, bound))
	case told != "":
		texts = append(texts, fmt.Sprintf("another scheduler looks at pods with spec.schedulerName %s: there is no SchedulingProfile of that name, and pod %s", p.Name, told))
	}
	return texts, nil
}

// foreign says whether a bound pod was bound by another scheduler than Berth: it has no
// annotation of Berth's, is no static pod, which no scheduler binds, and was bound since
// the profile is there.
func boundByOther(pod *corev1.Pod, there *v1alpha1.SchedulingProfile) bool {
	_, annotated := pod.Annotations[decision.AnnotationKey]
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !annotated && !static && boundAfterCreation(podScheduled(pod), there)
}

// after says whether a pod was bound since its profile is there; also where there is none.
func boundAfterCreation(scheduled *corev1.PodCondition, there *v1alpha1.SchedulingProfile) bool {
	return there == nil || scheduled != nil && scheduled.LastTransitionTime.After(there.CreationTimestamp.Time)
}

// ours says whether Berth alone gives a pod this reason.
func isBerthReason(reason string) bool {
	switch reason {
	case "ProfileDeleted", "ProfilePaused", "NamespaceNotAllowed", "Unsupported", "ProfileNotRunning", "Quarantined":
		return true
	}
	return reason == corev1.PodReasonSchedulingGated // which the API server gives
}

func podScheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
