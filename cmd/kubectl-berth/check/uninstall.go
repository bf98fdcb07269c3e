package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
)

// workloadKind is a kind whose objects have a schedulerName, in their spec or in the
// template of their pods.
type workloadKind struct {
	kind          string
	list          client.ObjectList
	schedulerName func(client.Object) string
}

// workloadKinds returns the kinds so that an owner comes before what it owns; pods come
// last.
func workloadKinds() []workloadKind {
	return []workloadKind{
		{"CronJob", &batchv1.CronJobList{}, func(o client.Object) string {
			return o.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec.SchedulerName
		}},
		{"Job", &batchv1.JobList{}, func(o client.Object) string {
			job := o.(*batchv1.Job)
			if hasEnded(job) {
				return "" // it creates no more pods
			}
			return job.Spec.Template.Spec.SchedulerName
		}},
		{"Deployment", &appsv1.DeploymentList{}, func(o client.Object) string {
			return o.(*appsv1.Deployment).Spec.Template.Spec.SchedulerName
		}},
		{"StatefulSet", &appsv1.StatefulSetList{}, func(o client.Object) string {
			return o.(*appsv1.StatefulSet).Spec.Template.Spec.SchedulerName
		}},
		{"DaemonSet", &appsv1.DaemonSetList{}, func(o client.Object) string {
			return o.(*appsv1.DaemonSet).Spec.Template.Spec.SchedulerName
		}},
		{"ReplicaSet", &appsv1.ReplicaSetList{}, func(o client.Object) string {
			set := o.(*appsv1.ReplicaSet)
			if metav1.GetControllerOf(set) != nil && ptr.Deref(set.Spec.Replicas, 1) == 0 {
				return "" // an earlier revision of a Deployment
			}
			return set.Spec.Template.Spec.SchedulerName
		}},
		{"ReplicationController", &corev1.ReplicationControllerList{}, func(o client.Object) string {
			controller := o.(*corev1.ReplicationController)
			if controller.Spec.Template == nil || metav1.GetControllerOf(controller) != nil && ptr.Deref(controller.Spec.Replicas, 1) == 0 {
				return "" // an earlier revision of what owns it
			}
			return controller.Spec.Template.Spec.SchedulerName
		}},
		{"Pod", &corev1.PodList{}, func(o client.Object) string {
			pod := o.(*corev1.Pod)
			if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
				return ""
			}
			return pod.Spec.SchedulerName
		}},
	}
}

// hasEnded reports whether a Job is complete or has failed. Only a complete one has a time of
// completion.
func hasEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	}) || job.Status.CompletionTime != nil
}

// StrandedWorkloads is the output of -o json with --uninstall.
type StrandedWorkloads struct {
	Workloads []*StrandedWorkload `json:"workloads"`
}

// StrandedWorkload is a workload or pod that uses a profile, with the number of its pods
// that do.
type StrandedWorkload struct {
	Profile   string `json:"profile"`
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Pods      int    `json:"pods"`
}

// listStranded lists the workloads and pods that use a profile. An object whose owner is
// listed is counted with the owner.
func (o *options) listStranded(ctx context.Context) error {
	profiles, err := o.cluster.Profiles(ctx)
	if err != nil {
		return err
	}
	names := cluster.ProfileNames(profiles)
	var all []*StrandedWorkload
	by := map[types.UID]*StrandedWorkload{}
	for _, m := range workloadKinds() {
		err := o.eachObject(ctx, m.list, func(object client.Object) {
			profile := m.schedulerName(object)
			if !slices.Contains(names, profile) {
				return
			}
			s := &StrandedWorkload{Profile: profile, Namespace: object.GetNamespace(), Kind: m.kind, Name: object.GetName()}
			if owner := metav1.GetControllerOf(object); owner != nil && by[owner.UID] != nil {
				s = by[owner.UID]
			} else {
				all = append(all, s)
			}
			by[object.GetUID()] = s
			if m.kind == "Pod" {
				s.Pods++
			}
		})
		if err != nil {
			return fmt.Errorf("listing %ss of all namespaces: %w", m.kind, cluster.UserError(err))
		}
	}
	sortWorkloads(all)
	if o.output.Structured() {
		if err := o.output.Print(o.Out, StrandedWorkloads{Workloads: append([]*StrandedWorkload{}, all...)}); err != nil || len(all) == 0 {
			return err
		}
		return verb.ErrFindings
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(o.Out, "No workload or pod uses a profile: %s can be deleted.\n", show.Count(len(names), "profile"))
		return err
	}
	return o.printStranded(all, names)
}

func sortWorkloads(all []*StrandedWorkload) {
	slices.SortFunc(all, func(a, b *StrandedWorkload) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

func (o *options) printStranded(all []*StrandedWorkload, names []string) error {
	var rows [][]any
	for _, s := range all {
		rows = append(rows, []any{s.Profile, s.Namespace, s.Kind, s.Pods, s.Name})
	}
	if err := show.NewTable(o.Out, true, show.Columns("Profile", "Namespace", "Kind", "Pods", "Name")).Print(rows...); err != nil {
		return err
	}
	fmt.Fprintln(o.Out, "\n"+show.Wrap("Running pods keep running. Pods that are created after Berth is uninstalled stay Pending: set another spec.schedulerName in the workloads above first.", "", ""))
	if slices.Contains(names, corev1.DefaultSchedulerName) {
		fmt.Fprintln(o.Out, show.Wrap("One profile is named default-scheduler: kube-scheduler schedules its pods once it runs again.", "", ""))
	}
	return verb.ErrFindings
}
