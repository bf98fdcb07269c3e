package lint

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/kubectltest"
)

func profileYAML(name string, annotations ...string) string {
	text := "---\napiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata:\n  name: " + name + "\n"
	for i := 0; i < len(annotations); i += 2 {
		text += fmt.Sprintf("  annotations: {%s: %q}\n", annotations[i], annotations[i+1])
	}
	return text + "spec: {}\n"
}

const (
	configurationYAML = "---\napiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: batch}, {schedulerName: web}]\n"
	configMapYAML     = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: scheduler, namespace: kube-system}\ndata:\n  config.yaml: |\n" +
		"    apiVersion: kubescheduler.config.k8s.io/v1beta3\n    kind: KubeSchedulerConfiguration\n    profiles: [{schedulerName: batch}]\n"
	takeOverAnnotation = "berth.dev/take-over"
)

func TestNamesThatAnotherSchedulerServesOffline(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		args []string
	}{
		"default-scheduler without a flag":          {in: profileYAML("default-scheduler")},
		"default-scheduler with a take-over":        {in: profileYAML("default-scheduler", takeOverAnnotation, "true")},
		"default-scheduler with a Lease":            {in: profileYAML("default-scheduler"), args: []string{"--other-scheduler-lease=kube-system/kube-scheduler"}},
		"default-scheduler that no other serves":    {in: profileYAML("default-scheduler"), args: []string{"--other-scheduler-lease=none"}},
		"an invalid Lease":                          {in: profileYAML("batch"), args: []string{"--other-scheduler-lease=kube-scheduler"}},
		"a name of other-schedulers":                {in: profileYAML("batch"), args: []string{"--other-schedulers=volcano,batch"}},
		"a take-over of a name of other-schedulers": {in: profileYAML("default-scheduler", takeOverAnnotation, "true"), args: []string{"--other-schedulers=default-scheduler"}},
		"a name in kube-scheduler's configuration":  {in: profileYAML("batch") + profileYAML("night") + configurationYAML},
		"a name in a configuration without names":   {in: profileYAML("default-scheduler", takeOverAnnotation, "true") + "---\napiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"},
		"a name in a ConfigMap":                     {in: profileYAML("batch") + configMapYAML},
		"a ConfigMap without a configuration":       {in: profileYAML("batch") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n"},
		"a ConfigMap with a broken configuration":   {in: profileYAML("batch") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: scheduler}\ndata:\n  config.yaml: |\n    kind: KubeSchedulerConfiguration\n    profiles: [\n"},
		"warnings as errors":                        {in: profileYAML("default-scheduler"), args: []string{"--warnings-as-errors"}},
		"no warnings as errors":                     {in: profileYAML("batch"), args: []string{"--warnings-as-errors"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t)
			env.In = c.in
			env.Fail = func(string, any) error {
				t.Error("the cluster was contacted")
				return nil
			}
			kubectltest.Golden(t, "offline: "+name, env.Run(New, append([]string{"-f", "-", "--offline"}, c.args...)...), false)
		})
	}
}

// managerDeployment is Berth's Deployment with these flags.
func managerDeployment(flags ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-manager", Labels: map[string]string{"app.kubernetes.io/name": "berth"}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Args: flags}}
	return d
}

// kubeSchedulerLease is kube-scheduler's Lease, renewed this long ago.
func kubeSchedulerLease(ago time.Duration) *coordinationv1.Lease {
	by, renewed, seconds := "control-plane-1_7f", metav1.NewMicroTime(kubectltest.Now.Add(-ago)), int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &by, RenewTime: &renewed, LeaseDurationSeconds: &seconds},
	}
}

// boundPod returns a pod that was bound ten minutes ago, with the annotation of Berth if
// annotated.
func boundPod(name string, annotated bool) *corev1.Pod {
	pod := kubectltest.WithPodScheduled(kubectltest.Pod(name, "batch", "n1"), corev1.ConditionTrue, "", "")
	if annotated {
		pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: decision.Annotation(decision.Decision{Profile: "batch", Node: "n1"})}
	}
	return pod
}

func withAge(p *v1alpha1.SchedulingProfile, ago time.Duration) *v1alpha1.SchedulingProfile {
	p.CreationTimestamp = kubectltest.Ago(ago)
	return p
}

func TestNamesThatAnotherSchedulerServesInTheCluster(t *testing.T) {
	static := boundPod("static", false)
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	refused := kubectltest.Profile("batch", 1)
	refused.Status.Conditions = []metav1.Condition{{
		Type: string(v1alpha1.ConditionAccepted), Status: metav1.ConditionFalse, Reason: string(v1alpha1.ReasonNameServedElsewhere), Message: "nothing runs; pods of this name are scheduled by another one",
	}}
	silent := withAge(kubectltest.Profile("batch", 1, func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Annotate = v1alpha1.Disabled }), time.Hour)
	binder := withAge(kubectltest.Profile("batch", 1, func(s *v1alpha1.SchedulingProfileSpec) {
		s.Extenders = []v1alpha1.Extender{kubectltest.Extender("gpu", "example.com/gpu")}
		s.Extenders[0].Verbs.Bind = "bind"
	}), time.Hour)
	byExtender := boundPod("gpu", false)
	byExtender.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")},
	}}}
	noCRDs := apierrors.NewNotFound(schema.GroupResource{}, "")
	noCRDs.ErrStatus.Details = &metav1.StatusDetails{Group: "berth.dev"}
	for name, c := range map[string]struct {
		objects []client.Object
		in      string
		args    []string
		fail    func(object any) error
	}{
		"no other scheduler":                             {in: profileYAML("batch"), objects: []client.Object{managerDeployment(), kubectltest.Pod("new", "batch", "")}},
		"pods of the name are bound":                     {in: profileYAML("batch"), objects: []client.Object{boundPod("a", false), boundPod("b", false)}},
		"pods of the name were bound by Berth":           {in: profileYAML("batch"), objects: []client.Object{boundPod("a", true), static}},
		"pods were bound before the profile was created": {in: profileYAML("batch"), objects: []client.Object{withAge(kubectltest.Profile("batch", 1), time.Minute), boundPod("a", false)}},
		"pods were bound later, and not by Berth":        {in: profileYAML("batch"), objects: []client.Object{withAge(kubectltest.Profile("batch", 1), time.Hour), boundPod("a", false)}},
		"pods were bound by an extender":                 {in: profileYAML("batch"), objects: []client.Object{binder, byExtender}},
		"pods were bound and not by the extender":        {in: profileYAML("batch"), objects: []client.Object{binder, byExtender, boundPod("a", false)}},
		"a profile whose pods are not annotated":         {in: profileYAML("batch"), objects: []client.Object{silent, boundPod("a", false)}},
		"a pod has a condition of another scheduler":     {in: profileYAML("batch"), objects: []client.Object{kubectltest.WithPodScheduled(kubectltest.Pod("a", "batch", ""), corev1.ConditionFalse, "Unschedulable", "")}},
		"a pod has a condition of Berth":                 {in: profileYAML("batch"), objects: []client.Object{kubectltest.WithPodScheduled(kubectltest.Pod("a", "batch", ""), corev1.ConditionFalse, "ProfileDeleted", "")}},
		"the profile in the cluster is rejected":         {in: profileYAML("batch"), objects: []client.Object{refused}},
		"the manager's flag has the name":                {in: profileYAML("batch"), objects: []client.Object{managerDeployment("--other-schedulers=volcano,batch")}},
		"the manager's flag in two arguments":            {in: profileYAML("batch"), objects: []client.Object{managerDeployment("--other-schedulers", "batch")}},
		"the flag of lint overrides the manager's":       {in: profileYAML("batch"), objects: []client.Object{managerDeployment("--other-schedulers=batch")}, args: []string{"--other-schedulers=volcano"}},
		"kube-scheduler holds its Lease":                 {in: profileYAML("default-scheduler", takeOverAnnotation, "true"), objects: []client.Object{kubeSchedulerLease(2 * time.Second)}},
		"kube-scheduler's Lease is expired":              {in: profileYAML("default-scheduler"), objects: []client.Object{kubeSchedulerLease(time.Hour), managerDeployment("--other-scheduler-lease=kube-system/kube-scheduler")}},
		"the manager says that no other serves it":       {in: profileYAML("default-scheduler"), objects: []client.Object{managerDeployment("--other-scheduler-lease=none")}},
		"Berth is not installed yet": {in: profileYAML("batch"), objects: []client.Object{boundPod("a", false)}, fail: func(object any) error {
			if _, profiles := object.(*v1alpha1.SchedulingProfileList); profiles {
				return noCRDs
			}
			return nil
		}},
		"a group under a profile of the cluster": {in: jobsYAML, objects: []client.Object{&v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}}},
		"no permission to list pods": {in: profileYAML("batch"), fail: func(object any) error {
			if _, pods := object.(*corev1.PodList); pods {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("you are a tenant"))
			}
			return nil
		}},
		"the cluster does not answer": {in: profileYAML("default-scheduler"), fail: func(any) error { return errors.New("connection refused") }},
	} {
		t.Run(name, func(t *testing.T) {
			var own []client.Object
			for _, object := range c.objects {
				own = append(own, object.DeepCopyObject().(client.Object))
			}
			env := kubectltest.New(t, own...)
			env.In = c.in
			if c.fail != nil {
				env.Fail = func(_ string, object any) error { return c.fail(object) }
			}
			kubectltest.Golden(t, "live: "+name, env.Run(New, append([]string{"-f", "-"}, c.args...)...), false)
		})
	}
}
