package explain

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/kubectltest"
)

// ownedBy sets the controller of an object.
func ownedBy[O client.Object](object O, kind string, owner client.Object) O {
	yes := true
	object.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}})
	return object
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}
}

// unschedulablePod is a pending pod that is age minutes old.
func unschedulablePod(name, profile string, age int, reason, message string) *corev1.Pod {
	pod := kubectltest.WithPodScheduled(kubectltest.Pod(name, profile, ""), corev1.ConditionFalse, reason, message)
	pod.CreationTimestamp = kubectltest.Ago(time.Duration(age) * time.Minute)
	return pod
}

// shopObjects are a Deployment whose newest ReplicaSet has bound pods, pods that are pending
// for three reasons, and pods that a quota forbids; an older one has a pod that ended.
func shopObjects() []client.Object {
	p, _ := runningBatch()
	nine := int32(9)
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta("shop"), Spec: appsv1.DeploymentSpec{Replicas: &nine}}
	old := ownedBy(&appsv1.ReplicaSet{ObjectMeta: objectMeta("shop-1")}, "Deployment", deployment)
	set := ownedBy(&appsv1.ReplicaSet{ObjectMeta: objectMeta("shop-2")}, "Deployment", deployment)
	set.Status.Conditions = []appsv1.ReplicaSetCondition{{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: `pods "shop-2-z" is forbidden: exceeded quota: pods, used: 8, limited: 8`,
	}}
	ended := ownedBy(kubectltest.Pod("shop-1-a", "batch", "n9"), "ReplicaSet", old)
	ended.Status.Phase = corev1.PodSucceeded
	objects := []client.Object{p, deployment, old, set, ended, kubectltest.Pod("foreign", "batch", "n1"), ownedBy(kubectltest.Pod("other", "batch", "n1"), "ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: objectMeta("other")})}
	for i, node := range []string{"n2", "n1", "n2"} {
		objects = append(objects, ownedBy(kubectltest.Pod(fmt.Sprintf("shop-2-%d", i), "batch", node), "ReplicaSet", set))
	}
	first := unschedulablePod("web", "batch", 40, "Unschedulable", "0/500 nodes are available: 20 node(s) had untolerated taint(s), 480 Insufficient cpu.")
	objects = append(objects, testDecision(first.UID),
		ownedBy(first, "ReplicaSet", set),
		ownedBy(unschedulablePod("shop-2-4", "batch", 30, "Unschedulable", "0/501 nodes are available: 20 node(s) had untolerated taint(s), 481 Insufficient cpu."), "ReplicaSet", set),
		ownedBy(unschedulablePod("shop-2-5", "batch", 3, "Quarantined", "plugin Own panicked"), "ReplicaSet", set),
		ownedBy(kubectltest.Pod("shop-2-6", "bacth", ""), "ReplicaSet", set))
	return objects
}

func TestExplainAWorkload(t *testing.T) {
	two := int32(2)
	db := &appsv1.StatefulSet{ObjectMeta: objectMeta("db"), Spec: appsv1.StatefulSetSpec{Replicas: &two}}
	logs := &appsv1.DaemonSet{ObjectMeta: objectMeta("logs"), Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1}}
	nightly := &batchv1.CronJob{ObjectMeta: objectMeta("nightly")}
	run := ownedBy(&batchv1.Job{ObjectMeta: objectMeta("nightly-7")}, "CronJob", nightly)
	p, _ := runningBatch()
	objects := []client.Object{
		p, db, logs, nightly, run, &corev1.ReplicationController{ObjectMeta: objectMeta("none")},
		ownedBy(kubectltest.Pod("db-0", "batch", "n1"), "StatefulSet", db), ownedBy(kubectltest.Pod("db-1", "batch", "n2"), "StatefulSet", db),
		ownedBy(unschedulablePod("logs-1", "batch", 5, "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."), "DaemonSet", logs),
		ownedBy(unschedulablePod("nightly-7-a", "default-scheduler", 5, "Unschedulable", "0/1 nodes are available."), "Job", run),
	}
	for name, c := range map[string]struct {
		objects []client.Object
		args    []string
	}{
		"a Deployment with pods pending for several reasons": {shopObjects(), []string{"deploy/shop"}},
		"a Deployment as YAML":                               {shopObjects(), []string{"deployment", "shop", "-o", "yaml"}},
		"its ReplicaSet":                                     {shopObjects(), []string{"rs/shop-2", "-o", "json"}},
		"a StatefulSet all of whose pods are bound":          {objects, []string{"sts/db"}},
		"a DaemonSet":                                        {objects, []string{"ds/logs"}},
		"a CronJob with pods of kube-scheduler":              {objects, []string{"cronjob/nightly"}},
		"a Job":                                              {objects, []string{"job/nightly-7"}},
		"a ReplicationController without a pod":              {objects, []string{"rc/none"}},
	} {
		t.Run(name, func(t *testing.T) {
			var own []client.Object
			for _, object := range c.objects {
				own = append(own, object.DeepCopyObject().(client.Object))
			}
			kubectltest.Golden(t, name, kubectltest.New(t, own...).Run(New, c.args...), len(c.args) > 1)
		})
	}
}

func TestAPodIsExplainedAsJSON(t *testing.T) {
	p, hash := runningBatch()
	for name, c := range map[string]struct{ objects []client.Object }{
		"a bound pod as JSON":                          {[]client.Object{p, boundPod(boundDecision(hash))}},
		"a pod that fits nowhere as JSON":              {[]client.Object{p, testDecision("web"), unschedulablePod("web", "batch", 3, "Unschedulable", "0/500 nodes are available.")}},
		"a bound pod with a forged annotation as JSON": {[]client.Object{p, kubectltest.Pod("db", "batch", ""), boundPod(boundDecision("0"))}},
	} {
		t.Run(name, func(t *testing.T) {
			kubectltest.Golden(t, name, kubectltest.New(t, c.objects...).Run(New, "pod/web", "-o", "json"), true)
		})
	}
}
