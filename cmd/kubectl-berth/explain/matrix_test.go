package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// testCluster is a cluster of five nodes: one is tainted, one is full, one is small.
func testCluster(more ...client.Object) []client.Object {
	p := kubectltest.Profile("batch", 6)
	revision := kubectltest.Revision(p, 1)
	return append([]client.Object{
		kubectltest.Running(p, revision, 6), revision,
		fixture.Node("n1").Zone("a").Capacity("cpu", "8", "memory", "16Gi").Obj(),
		fixture.Node("n2").Zone("a").Capacity("cpu", "4", "memory", "16Gi").Obj(),
		fixture.Node("n3").Zone("b").Capacity("cpu", "8", "memory", "1Gi").Taint("dedicated", "db", corev1.TaintEffectNoSchedule).Obj(),
		fixture.Node("n4").Zone("b").Capacity("cpu", "4", "memory", "16Gi").Obj(),
		fixture.Node("n5").Zone("b").Capacity("cpu", "1", "memory", "1Gi").Unschedulable().Obj(),
		fixture.Pod("shop/big").SchedulerName("batch").Requests("cpu", "3", "memory", "1Gi").On("n4").Obj(),
	}, more...)
}

// webPod is the pod that is explained.
func webPod() *fixture.PodBuilder {
	return fixture.Pod("default/web").SchedulerName("batch").Requests("cpu", "2", "memory", "2Gi")
}

func TestMatrix(t *testing.T) {
	smallNodes := func() (objects []client.Object) {
		for i := range 60 {
			objects = append(objects, fixture.Node(fmt.Sprintf("c%02d", i)).Capacity("cpu", fmt.Sprintf("%dm", 500+100*(i%9)), "memory", "16Gi").Obj())
		}
		return objects
	}
	for name, c := range map[string]struct {
		pod       *corev1.Pod
		more      []client.Object
		args      []string
		forbidden []string
		long      bool
	}{
		"rejections and scores": {pod: webPod().Obj()},
		"a bound pod": {
			pod: webPod().On("n2").Obj(),
		},
		"wide": {pod: webPod().Obj(), args: []string{"-o", "wide"}, long: true},
		"yaml": {pod: webPod().Obj(), args: []string{"-o", "yaml", "--limit", "1"}},
		"a pod that fits nowhere, plugin by node": {pod: webPod().Requests("cpu", "9", "memory", "2Gi").NodeSelector("disk", "ssd").Obj()},
		"nodes with equal results":                {pod: webPod().Obj(), more: smallNodes(), args: []string{"--limit", "4"}},
		"rows that are left out":                  {pod: webPod().Requests("cpu", "10m").Obj(), more: smallNodes(), args: []string{"--limit", "3"}},
		"devices": {
			pod: webPod().ResourceClaim("gpus").Obj(),
			more: []client.Object{
				fixture.DeviceClass("gpu").Obj(), fixture.ResourceClaim("gpus").Request("r", "gpu").Count(2).Obj(),
				fixture.ResourceSlice("n1", "gpu.example.com").Device("d0", fixture.Attributes{}).Device("d1", fixture.Attributes{}).Obj(),
				fixture.ResourceSlice("n2", "gpu.example.com").Device("d0", fixture.Attributes{}).Obj(),
			},
		},
		"a gated pod": {
			pod: webPod().SchedulingGate("quota").Obj(),
		},
		"nominated pods": {
			pod:  webPod().NominatedNodeName("n2").Obj(),
			more: []client.Object{fixture.Pod("shop/high").SchedulerName("batch").Priority(9).Requests("cpu", "7").NominatedNodeName("n1").Obj()},
		},
		"no permission to list some kinds": {
			pod: webPod().Obj(), forbidden: []string{"*v1.NamespaceList", "*v1.ServiceList", "*v1.ReplicaSetList"},
		},
		"no permission to list nodes": {pod: webPod().Obj(), forbidden: []string{"*v1.NodeList"}},
		"a pod of an unknown profile": {pod: webPod().SchedulerName("bach").Obj()},
		"a pod of one node by name":   {pod: webPod().RequireNodeAffinity(fixture.NodeNameTerm("n4")).Obj()},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, append(testCluster(c.more...), c.pod)...)
			env.Fail = func(_ string, object any) error {
				if kind := fmt.Sprintf("%T", object); slices.Contains(c.forbidden, kind) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", fmt.Errorf("you may not"))
				}
				return nil
			}
			kubectltest.Golden(t, "matrix "+name, env.Run(New, append([]string{"pod/web", "--matrix"}, c.args...)...), c.long)
		})
	}
}

// A pod of a group is gated until the group is complete: by all of its pods, and its PodGroup.
func TestAMatrixKnowsThePodsGroup(t *testing.T) {
	p := kubectltest.Profile("gangs", 6, func(s *v1alpha1.SchedulingProfileSpec) {
		s.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "GangScheduling"}}}}
	})
	revision, group := kubectltest.Revision(p, 1), "train"
	member := func(name string) *fixture.PodBuilder {
		return fixture.Pod(name).SchedulerName("gangs").Mutate(func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} })
	}
	for name, c := range map[string]struct {
		minCount  int32
		forbidden bool
		want      string // empty: nothing about a gate
	}{
		"complete":     {minCount: 3},
		"too few pods": {minCount: 4, want: "the pod is gated by plugin GangScheduling: the pod's group has 3 of at least 4 pods"},
		"no PodGroup":  {want: "the pod is gated by plugin GangScheduling: the PodGroup default/train does not exist"},
		"unreadable":   {minCount: 3, forbidden: true, want: "cannot tell whether the pod is gated: PodGroup default/train: "},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(testCluster(), kubectltest.Running(p.DeepCopy(), revision, 6), revision,
				member("default/web").Obj(), member("default/train-1").Obj(), member("default/train-2").On("n1").Obj(), member("shop/train-3").Obj())
			if c.minCount > 0 {
				objects = append(objects, &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: group}, Spec: schedulingv1beta1.PodGroupSpec{
					SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: c.minCount}},
				}})
			}
			env := kubectltest.New(t, objects...)
			env.Fail = func(_ string, object any) error {
				if _, is := object.(*schedulingv1beta1.PodGroup); is && c.forbidden {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, group, fmt.Errorf("you may not"))
				}
				return nil
			}
			printed := strings.Join(strings.Fields(env.Run(New, "pod/web", "--matrix")), " ")
			if !strings.Contains(printed, c.want) || !strings.HasSuffix(printed, "exit 0") || c.want == "" && strings.Contains(printed, "gated") {
				t.Errorf("want %q:\n%s", c.want, printed)
			}
		})
	}
}

// Extenders may reject nodes that the plugins do not.
func TestAMatrixNamesTheExtendersThatAreNotCalled(t *testing.T) {
	p := kubectltest.Profile("extended", 6, func(s *v1alpha1.SchedulingProfileSpec) {
		s.Extenders = []v1alpha1.Extender{kubectltest.Extender("rack"), kubectltest.Extender("gpu", "example.com/gpu")}
	})
	revision := kubectltest.Revision(p, 1)
	env := kubectltest.New(t, append(testCluster(), kubectltest.Running(p, revision, 6), revision, webPod().SchedulerName("extended").Obj())...)
	want := "note: extenders are not called here; those that Berth calls for this pod (rack) may reject"
	if printed := env.Run(New, "pod/web", "--matrix"); !strings.Contains(printed, want) {
		t.Errorf("no %q:\n%s", want, printed)
	}
}

func TestAMatrixNamesEveryPluginThatRejectsANode(t *testing.T) {
	// Only n1 has the resources; n3 would have the CPU, but has a taint and too little memory.
	env := kubectltest.New(t, append(testCluster(), webPod().Requests("cpu", "5", "memory", "2Gi").Obj())...)
	text, _, _ := strings.Cut(env.Run(New, "pod/web", "--matrix", "-o", "json"), "exit ")
	var m Matrix
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	rejecting := map[string][]string{}
	for _, n := range m.Nodes {
		rejecting[n.Node] = []string{}
		for _, r := range n.Rejections {
			rejecting[n.Node] = append(rejecting[n.Node], r.Plugin)
		}
	}
	want := `{"n1":[],"n2":["NodeResourcesFit"],"n3":["TaintToleration","NodeResourcesFit"],"n4":["NodeResourcesFit"],"n5":["NodeUnschedulable","NodeResourcesFit"]}`
	if got, _ := json.Marshal(rejecting); string(got) != want || m.Feasible != 1 {
		t.Errorf("%d feasible nodes, want 1; rejecting plugins:\n got %s\nwant %s", m.Feasible, got, want)
	}
}

func TestFlagsOfTheMatrix(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"wide without a matrix":     {[]string{"-o", "wide"}, "-o wide: requires --matrix"},
		"an unsupported format":     {[]string{"--matrix", "-o", "xml"}, `-o: unsupported output format "xml": must be one of: wide, json, yaml`},
		"a negative number of rows": {[]string{"--matrix", "--limit", "-1"}, "--limit: Invalid value: -1: must be greater than or equal to 0"},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, append(testCluster(), webPod().Obj())...)
			if got := env.Run(New, append([]string{"pod/web"}, c.args...)...); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "exit 2\n") {
				t.Errorf("not %q: %s", c.want, got)
			}
		})
	}
}
