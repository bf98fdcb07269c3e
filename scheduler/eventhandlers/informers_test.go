package eventhandlers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/podclass"
	"github.com/berthdev/berth/test/support/fixture"
)

// detailedPod returns a pod with many fields that scheduling does not read.
func detailedPod() *v1.Pod {
	pod := fixture.Pod("shop/web").Requests("cpu", "500m", "memory", "1Gi").InitRequests("cpu", "2").
		SidecarRequests("memory", "64Mi").HostPort("", v1.ProtocolTCP, 80).Image("registry.example.com/web:1").Claim("data").Obj()
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	probe := &v1.Probe{PeriodSeconds: 3}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Command, c.Args = []string{"serve"}, []string{"--all"}
			c.Env, c.EnvFrom = []v1.EnvVar{{Name: "A", Value: "b"}}, []v1.EnvFromSource{{Prefix: "C"}}
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe, probe, probe
			c.Lifecycle = &v1.Lifecycle{StopSignal: new(v1.SIGHUP)}
			c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}
	}
	return pod
}

// withResizeStatus sets the status of a pod that the kubelet is resizing.
func withResizeStatus(pod *v1.Pod) *v1.Pod {
	more := v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: pod.Spec.Containers[i].Name, Ready: true, ContainerID: "containerd://1", AllocatedResources: more,
			Resources: &v1.ResourceRequirements{Requests: more}, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}}
	return pod
}

func TestTrimKeepsRequestsAndPodClass(t *testing.T) {
	for name, whole := range map[string]*v1.Pod{
		"a detailed pod":              detailedPod(),
		"a pod that is being resized": withResizeStatus(detailedPod()),
		"an empty pod":                fixture.Pod("shop/empty").Obj(),
	} {
		t.Run(name, func(t *testing.T) {
			trimmed, err := Trim(false)(whole.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			want, err := framework.NewPodInfo(whole)
			if err != nil {
				t.Fatal(err)
			}
			got, err := framework.NewPodInfo(trimmed.(*v1.Pod))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.CalculateResource(), got.CalculateResource()); diff != "" {
				t.Errorf("requests (-whole +trimmed):\n%s", diff)
			}
			keys := podclass.KeyBuilder{Facets: ^framework.PodFacets(0), Labels: &podclass.LabelKeys{}}
			if a, b := keys.Append(nil, whole), keys.Append(nil, trimmed.(*v1.Pod)); string(a) != string(b) {
				t.Errorf("the class keys differ: %q and %q", a, b)
			}
		})
	}
}

func TestTrim(t *testing.T) {
	trimmed, err := Trim(false)(withResizeStatus(detailedPod()))
	if err != nil {
		t.Fatal(err)
	}
	pod := trimmed.(*v1.Pod)
	if c := pod.Spec.Containers[0]; c.Command != nil || c.Args != nil || c.Env != nil || c.EnvFrom != nil || c.LivenessProbe != nil || c.Lifecycle != nil {
		t.Errorf("a container is not trimmed: %+v", c)
	}
	if s := pod.Status.ContainerStatuses[0]; s.State.Running != nil || s.ContainerID != "" || s.AllocatedResources == nil {
		t.Errorf("a container status has other fields than its resources, or lacks them: %+v", s)
	}
	untrimmed, err := Trim(true)(withResizeStatus(detailedPod()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withResizeStatus(detailedPod()), untrimmed, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
		t.Errorf("with out-of-tree plugins only managedFields are trimmed (-want +got):\n%s", diff)
	}
	if untrimmed.(*v1.Pod).ManagedFields != nil {
		t.Error("managedFields are not trimmed")
	}
	if tombstone, err := Trim(false)(toolscache.DeletedFinalStateUnknown{Key: "x"}); err != nil || tombstone == nil {
		t.Errorf("a missed deletion: %v, %v", tombstone, err)
	}
}

func TestOnlyKindsWithNamespacesAreIndexedByNamespace(t *testing.T) {
	core := NewInformers(fake.NewClientset(), Trim(false)).Core().V1()
	for kind, test := range map[string]struct {
		informer toolscache.SharedIndexInformer
		want     bool
	}{
		"pods":  {core.Pods().Informer(), true},
		"nodes": {core.Nodes().Informer(), false},
	} {
		if _, is := test.informer.GetIndexer().GetIndexers()[toolscache.NamespaceIndex]; is != test.want {
			t.Errorf("%s are indexed by namespace: %t, want %t", kind, is, test.want)
		}
	}
}
