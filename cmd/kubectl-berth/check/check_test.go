package check

import (
	"errors"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// otherVerb is a verb whose permissions are checked.
var otherVerb = verb.Verb{Name: "profiles", Permissions: []verb.Permission{
	{Verbs: []string{"list", "watch"}, Group: "berth.dev", Resource: "schedulingprofiles"},
	{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for order"},
}}

func newTestCommand(env verb.Env) *cobra.Command {
	return New(env, []verb.Verb{otherVerb, {Name: "lint"}})
}

func testCRDs(t *testing.T, established apiextensionsv1.ConditionStatus) []client.Object {
	names, err := manifest.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, name := range names {
		all = append(all, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true}}},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: established},
			}},
		})
	}
	return all
}

func heldLease(ago time.Duration, by string) *coordinationv1.Lease {
	renewed, seconds := metav1.NewMicroTime(kubectltest.Now.Add(-ago)), int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: leaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &by, RenewTime: &renewed, LeaseDurationSeconds: &seconds},
	}
}

func TestCheck(t *testing.T) {
	ready, notReady := kubectltest.Profile("batch", 1), kubectltest.Profile("web", 2)
	ready = kubectltest.Running(ready, kubectltest.Revision(ready, 1), 1)
	notReady = kubectltest.Running(notReady, kubectltest.Revision(notReady, 1), 1)
	degraded := ready.DeepCopy()
	meta.SetStatusCondition(&degraded.Status.Conditions, metav1.Condition{
		Type: string(v1alpha1.ConditionDegraded), Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonPluginHangs), ObservedGeneration: 1,
		Message: "1 call of plugin Quota timed out and has not returned",
	})
	for name, c := range map[string]struct {
		objects []client.Object
		may     func(authorizationv1.ResourceAttributes) bool
		// server is the API server's version, where it matters.
		server string
	}{
		"everything works":     {objects: append(testCRDs(t, "True"), heldLease(time.Second, "node-1_7f"), ready, kubectltest.Pod("p", "batch", "n1"))},
		"nothing is installed": {},
		"many failures": {
			objects: append(testCRDs(t, "True"), heldLease(time.Hour, "node-1_7f"), ready, notReady, kubectltest.Profile("new", 1),
				kubectltest.Pod("lost-1", "bacth", ""), kubectltest.Pod("lost-2", "bacth", ""), kubectltest.WithPodScheduled(kubectltest.Pod("told", "volcano", ""), corev1.ConditionFalse, "Unschedulable", ""),
				kubectltest.Pod("bound", "kueue", "n1"), kubectltest.Pod("new", "kueue", "")),
			may: func(a authorizationv1.ResourceAttributes) bool {
				return a.Verb == "get" || a.Resource == "schedulingprofiles"
			},
		},
		"a profile that is Degraded": {objects: append(testCRDs(t, "True"), heldLease(time.Second, "node-1_7f"), degraded)},
		"pods that are held": {
			objects: append(testCRDs(t, "True"), heldLease(time.Second, "node-1_7f"), ready,
				kubectltest.WithPodScheduled(kubectltest.Pod("web-2", "shop", ""), corev1.ConditionFalse, "ProfileDeleted", "SchedulingProfile shop was deleted: the pod waits until a profile of that name exists"),
				kubectltest.WithPodScheduled(kubectltest.Pod("web-1", "shop", ""), corev1.ConditionFalse, "ProfileDeleted", "SchedulingProfile shop was deleted: the pod waits until a profile of that name exists"),
				kubectltest.WithPodScheduled(kubectltest.Pod("claims", "batch", ""), corev1.ConditionFalse, "Unsupported", "spec.resourceClaims: not yet"),
				kubectltest.WithPodScheduled(kubectltest.Pod("later", "batch", ""), corev1.ConditionFalse, "ProfilePaused", "SchedulingProfile batch is paused"),
				kubectltest.WithPodScheduled(kubectltest.Pod("full", "batch", ""), corev1.ConditionFalse, "Unschedulable", "0/1 nodes are available")),
		},
		"a cluster that is too old": {
			objects: append(testCRDs(t, "True"), heldLease(time.Second, "node-1_7f"), ready), server: "v1.34.9-gke.5",
		},
		"a server whose version cannot be parsed": {
			objects: append(testCRDs(t, "True"), heldLease(time.Second, "node-1_7f"), ready), server: "master",
		},
		"kinds that are not served, and a Lease without a holder": {objects: append(testCRDs(t, "False"), heldLease(time.Minute, ""))},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, object := range c.objects {
				objects = append(objects, object.DeepCopyObject().(client.Object))
			}
			env := kubectltest.New(t, objects...)
			env.Allow = c.may
			if c.server != "" {
				env.ServerVersion = c.server
			}
			kubectltest.Golden(t, name, env.Run(newTestCommand), false)
		})
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	ready := kubectltest.Profile("batch", 1)
	ready = kubectltest.Running(ready, kubectltest.Revision(ready, 1), 1)
	for name, c := range map[string]struct {
		// verb and object are those of the calls that are forbidden.
		verb   string
		object any
	}{
		"no permission to get the Lease":                   {"get", &coordinationv1.Lease{}},
		"no permission to get CRDs":                        {"get", &apiextensionsv1.CustomResourceDefinition{}},
		"no permission to list profiles":                   {"list", &v1alpha1.SchedulingProfileList{}},
		"no permission to list pods":                       {"list", &corev1.PodList{}},
		"no permission to create SelfSubjectAccessReviews": {"create", &authorizationv1.SelfSubjectAccessReview{}},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, append(testCRDs(t, "True"), heldLease(time.Second, "node-1_7f"), ready.DeepCopy())...)
			env.Fail = func(apiVerb string, object any) error {
				if apiVerb != c.verb || reflect.TypeOf(object) != reflect.TypeOf(c.object) {
					return nil
				}
				return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "it", errors.New("you are a tenant"))
			}
			kubectltest.Golden(t, name, env.Run(newTestCommand), true)
		})
	}
}

func TestCheckAsJSON(t *testing.T) {
	env := kubectltest.New(t, append(testCRDs(t, "True"), heldLease(time.Hour, "node-1_7f"))...)
	kubectltest.Golden(t, "checked as JSON", env.Run(newTestCommand, "-o", "json"), true)
	kubectltest.Golden(t, "checked as something else", env.Run(newTestCommand, "-o", "xml"), false)
}

func objectMeta(kind, name string, owner client.Object) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(kind + name)}
	if owner != nil {
		yes := true
		m.OwnerReferences = []metav1.OwnerReference{{UID: owner.GetUID(), Name: owner.GetName(), Controller: &yes}}
	}
	return m
}

func TestUninstallListsTheWorkloadsThatWouldBeStranded(t *testing.T) {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: "batch"}}
	pod := func(name string, owner client.Object, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: objectMeta("Pod", name, owner), Spec: template.Spec, Status: corev1.PodStatus{Phase: phase}}
	}
	web := &appsv1.Deployment{ObjectMeta: objectMeta("Deployment", "web", nil), Spec: appsv1.DeploymentSpec{Template: template}}
	one, none := int32(1), int32(0)
	current := &appsv1.ReplicaSet{ObjectMeta: objectMeta("ReplicaSet", "web-2", web), Spec: appsv1.ReplicaSetSpec{Replicas: &one, Template: template}}
	nightly := &batchv1.CronJob{ObjectMeta: objectMeta("CronJob", "nightly", nil)}
	nightly.Spec.JobTemplate.Spec.Template = template
	ended := metav1.NewTime(kubectltest.Now)
	objects := []client.Object{
		kubectltest.Profile("batch", 1), web, current, nightly,
		&appsv1.ReplicaSet{ObjectMeta: objectMeta("ReplicaSet", "web-1", web), Spec: appsv1.ReplicaSetSpec{Replicas: &none, Template: template}},
		&appsv1.StatefulSet{ObjectMeta: objectMeta("StatefulSet", "db", nil), Spec: appsv1.StatefulSetSpec{Template: template}},
		&appsv1.DaemonSet{ObjectMeta: objectMeta("DaemonSet", "logs", nil), Spec: appsv1.DaemonSetSpec{Template: template}},
		&batchv1.Job{ObjectMeta: objectMeta("Job", "done", nil), Spec: batchv1.JobSpec{Template: template}, Status: batchv1.JobStatus{CompletionTime: &ended}},
		&batchv1.Job{ObjectMeta: objectMeta("Job", "failed", nil), Spec: batchv1.JobSpec{Template: template}, Status: batchv1.JobStatus{
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}},
		}},
		&batchv1.Job{ObjectMeta: objectMeta("Job", "suspended", nil), Spec: batchv1.JobSpec{Template: template}, Status: batchv1.JobStatus{
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}, {Type: batchv1.JobFailed, Status: corev1.ConditionFalse}},
		}},
		&corev1.ReplicationController{ObjectMeta: objectMeta("ReplicationController", "old", nil), Spec: corev1.ReplicationControllerSpec{Replicas: &none, Template: &template}},
		&batchv1.Job{ObjectMeta: objectMeta("Job", "nightly-7", nightly), Spec: batchv1.JobSpec{Template: template}},
		pod("web-2-a", current, corev1.PodRunning), pod("web-2-b", current, corev1.PodPending), pod("bare", nil, corev1.PodRunning),
		pod("ended", nil, corev1.PodSucceeded), kubectltest.Pod("foreign", "default-scheduler", "n1"),
	}
	env := kubectltest.New(t, objects...)
	kubectltest.Golden(t, "uninstall with workloads", env.Run(newTestCommand, "--uninstall"), false)
	kubectltest.Golden(t, "uninstall as YAML", env.Run(newTestCommand, "--uninstall", "-o", "yaml"), false)
	env = kubectltest.New(t, kubectltest.Profile("batch", 1), kubectltest.Pod("foreign", "default-scheduler", "n1"))
	kubectltest.Golden(t, "uninstall without workloads as JSON", env.Run(newTestCommand, "--uninstall", "-o", "json"), false)
	kubectltest.Golden(t, "uninstall without workloads", env.Run(newTestCommand, "--uninstall"), false)
}
