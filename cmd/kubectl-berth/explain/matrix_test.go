package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/plugin"
)

// yard is a cluster of five nodes, one of them dedicated, one full, one small.
func testCluster(more ...client.Object) []client.Object {
	p := plugin.Profile("batch", 6)
	revision := plugin.Revision(p, 1)
	return append([]client.Object{
		plugin.Running(p, revision, 6), revision,
		fixture.Node("n1").Zone("a").Capacity("cpu", "8", "memory", "16Gi").Obj(),
		fixture.Node("n2").Zone("a").Capacity("cpu", "4", "memory", "16Gi").Obj(),
		fixture.Node("n3").Zone("b").Capacity("cpu", "8", "memory", "1Gi").Taint("dedicated", "db", corev1.TaintEffectNoSchedule).Obj(),
		fixture.Node("n4").Zone("b").Capacity("cpu", "4", "memory", "16Gi").Obj(),
		fixture.Node("n5").Zone("b").Capacity("cpu", "1", "memory", "1Gi").Unschedulable().Obj(),
		fixture.Pod("shop/big").SchedulerName("batch").Requests("cpu", "3", "memory", "1Gi").On("n4").Obj(),
	}, more...)
}

// web is the pod that is asked about.
func webPod() *fixture.PodBuilder {
	return fixture.Pod("default/web").SchedulerName("batch").Requests("cpu", "2", "memory", "2Gi")
}

func TestMatrix(t *testing.T) {
	crowd := func() (objects []client.Object) {
		for i := range 60 {
			objects = append(objects, fixture.Node(fmt.Sprintf("c%02d", i)).Capacity("cpu", fmt.Sprintf("%dm", 500+100*(i%9)), "memory", "16Gi").Obj())
		}
		return objects
	}
	for sentence, c := range map[string]struct {
		pod       *corev1.Pod
		more      []client.Object
		args      []string
		forbidden []string
		long      bool
	}{
		"who refuses what and what the others give": {pod: webPod().Obj()},
		"a pod that has a node is asked about without it": {
			pod: webPod().On("n2").Obj(),
		},
		"every plugin has a column in wide":       {pod: webPod().Obj(), args: []string{"-o", "wide"}, long: true},
		"every node is in yaml":                   {pod: webPod().Obj(), args: []string{"-o", "yaml", "--limit", "1"}},
		"a pod that fits nowhere, plugin by node": {pod: webPod().Requests("cpu", "9", "memory", "2Gi").NodeSelector("disk", "ssd").Obj()},
		"nodes of which the same is said":         {pod: webPod().Obj(), more: crowd(), args: []string{"--limit", "4"}},
		"rows that are left out":                  {pod: webPod().Requests("cpu", "10m").Obj(), more: crowd(), args: []string{"--limit", "3"}},
		"a pod with a gate is asked about and not tried": {
			pod: webPod().SchedulingGate("quota").Obj(),
		},
		"room that is promised counts": {
			pod:  webPod().NominatedNodeName("n2").Obj(),
			more: []client.Object{fixture.Pod("shop/high").SchedulerName("batch").Priority(9).Requests("cpu", "7").NominatedNodeName("n1").Obj()},
		},
		"what may not be read, and what it means": {
			pod: webPod().Obj(), forbidden: []string{"*v1.NamespaceList", "*v1.ServiceList", "*v1.ReplicaSetList"},
		},
		"nodes that may not be read":   {pod: webPod().Obj(), forbidden: []string{"*v1.NodeList"}},
		"a pod of no profile of Berth": {pod: webPod().SchedulerName("bach").Obj()},
		"a pod of one node by name":    {pod: webPod().RequireNodeAffinity(fixture.NodeNameTerm("n4")).Obj()},
	} {
		t.Run(sentence, func(t *testing.T) {
			stage := plugin.New(t, append(testCluster(c.more...), c.pod)...)
			stage.Fail = func(_ string, object any) error {
				if kind := fmt.Sprintf("%T", object); slices.Contains(c.forbidden, kind) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", fmt.Errorf("you may not"))
				}
				return nil
			}
			plugin.Golden(t, "matrix "+sentence, stage.Run(New, append([]string{"pod/web", "--matrix"}, c.args...)...), c.long)
		})
	}
}

func TestAMatrixNamesEveryPluginThatRejectsANode(t *testing.T) {
	// n1 alone has the room; n3 would but for its taint, and its memory.
	stage := plugin.New(t, append(testCluster(), webPod().Requests("cpu", "5", "memory", "2Gi").Obj())...)
	text, _, _ := strings.Cut(stage.Run(New, "pod/web", "--matrix", "-o", "json"), "exit ")
	var m Matrix
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	refusers := map[string][]string{}
	for _, n := range m.Nodes {
		refusers[n.Node] = []string{}
		for _, r := range n.Rejections {
			refusers[n.Node] = append(refusers[n.Node], r.Plugin)
		}
	}
	want := `{"n1":[],"n2":["NodeResourcesFit"],"n3":["TaintToleration","NodeResourcesFit"],"n4":["NodeResourcesFit"],"n5":["NodeUnschedulable","NodeResourcesFit"]}`
	if got, _ := json.Marshal(refusers); string(got) != want || m.Feasible != 1 {
		t.Errorf("%d fit, want 1; who refuses:\n got %s\nwant %s", m.Feasible, got, want)
	}
}

func TestFlagsOfTheMatrix(t *testing.T) {
	for sentence, c := range map[string]struct {
		args []string
		want string
	}{
		"wide without a matrix": {[]string{"-o", "wide"}, "-o wide: goes with --matrix"},
		"a format that is none": {[]string{"--matrix", "-o", "xml"}, `-o: no format "xml": it is one of wide, json, yaml`},
		"less than no rows":     {[]string{"--matrix", "--limit", "-1"}, "--limit: must be at least 0, is -1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			stage := plugin.New(t, append(testCluster(), webPod().Obj())...)
			if got := stage.Run(New, append([]string{"pod/web"}, c.args...)...); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "exit 2\n") {
				t.Errorf("not %q: %s", c.want, got)
			}
		})
	}
}
