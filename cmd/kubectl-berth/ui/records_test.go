package ui

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// checkRecord compares the fields of a record that want names; all of them if it names all.
func checkRecord(t *testing.T, record any, want string) {
	t.Helper()
	wanted, all := map[string]any{}, asJSON(t, record)
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for field := range wanted {
		if value, there := all[field]; there {
			got[field] = value
		}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestAProfileIsConverted(t *testing.T) {
	running := func(generation int64, change func(*v1alpha1.SchedulingProfile)) *v1alpha1.SchedulingProfile {
		p := kubectltest.Profile("batch", generation)
		p = kubectltest.Running(p, kubectltest.Revision(kubectltest.Profile("batch", 6), 1), 6)
		change(p)
		return p
	}
	hash := running(6, func(*v1alpha1.SchedulingProfile) {}).Status.Programmed.Hash
	for name, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		want    string
	}{
		"a profile that is not observed": {
			kubectltest.Profile("batch", 1),
			`{"name":"batch","state":"Active","ready":"Unknown","reason":"NotObserved","message":"Berth has not observed the profile yet.","degraded":"","generation":1,
			"runs":null,"hash":"","revision":"","lastDecision":null,"conditions":[],"trial":null,"plugins":[],"recent":[],"created":"2026-02-27T12:00:00Z",
			"queue":{"pending":0,"active":0,"backoff":0,"unschedulable":0,"gated":0,"waiting":0,"held":0,"quarantined":0,"inFlight":0},
			"totals":{"bound":0,"refusals":0,"errors":0,"victims":0,"decisionsDropped":0}}`,
		},
		"a profile whose newest generation is not observed": {
			running(6, func(p *v1alpha1.SchedulingProfile) { p.Generation = 7 }),
			`{"ready":"Unknown","reason":"NotObserved","message":"Berth has not observed generation 7 yet.","generation":7,"runs":6}`,
		},
		"a profile that is running": {
			running(6, func(p *v1alpha1.SchedulingProfile) {
				p.Spec.State = v1alpha1.StatePaused
				p.Status.LastDecisionTime = ptr.To(kubectltest.Ago(time.Minute))
				p.Status.Queue.Unschedulable, p.Status.Totals.Bound = 3, 41
				p.Status.Totals.Since = ptr.To(kubectltest.Ago(time.Hour))
				p.Status.Programmed.Plugins = []v1alpha1.ProgrammedPlugin{{Name: "NodeResourcesFit", Points: []v1alpha1.ExtensionPoint{"Filter", "Score"}, Weight: 5, Args: "PluginConfig/binpack"}}
				p.Status.RecentDecisions = []v1alpha1.RecentDecision{{Time: kubectltest.Ago(time.Minute), Namespace: "shop", Pod: "web", Result: v1alpha1.ResultBound, Node: "n1"}}
			}),
			`{"state":"Paused","ready":"True","reason":"Ready","message":"generation 6 runs since 11:00","runs":6,"hash":"` + hash + `","revision":"batch-` + hash + `",
			"lastDecision":"2026-03-01T11:59:00Z",
			"queue":{"pending":0,"active":0,"backoff":0,"unschedulable":3,"gated":0,"waiting":0,"held":0,"quarantined":0,"inFlight":0},
			"totals":{"since":"2026-03-01T11:00:00Z","bound":41,"refusals":0,"errors":0,"victims":0,"decisionsDropped":0},
			"plugins":[{"name":"NodeResourcesFit","points":["Filter","Score"],"weight":5,"args":"PluginConfig/binpack"}],
			"recent":[{"time":"2026-03-01T11:59:00Z","pod":"shop/web","result":"Bound","node":"n1","message":""}]}`,
		},
		"a profile that is degraded, with a trial": {
			running(6, func(p *v1alpha1.SchedulingProfile) {
				p.Status.Conditions = append(p.Status.Conditions[:0], metav1.Condition{
					Type: string(v1alpha1.ConditionDegraded), Status: metav1.ConditionTrue, Reason: "Hangs", Message: "plugin Own hangs", LastTransitionTime: kubectltest.Ago(time.Hour),
				})
				p.Status.Trial = &v1alpha1.TrialStatus{Hash: "x", Sampled: 9, FitBefore: ptr.To(int64(8)), FitAfter: 7, Lost: []v1alpha1.PodReference{{Namespace: "shop", Pod: "db"}}, Time: kubectltest.Ago(0)}
			}),
			`{"degraded":"plugin Own hangs","conditions":[{"type":"Degraded","status":"True","reason":"Hangs","message":"plugin Own hangs","since":"2026-03-01T11:00:00Z"}],
			"trial":{"sampled":9,"fitBefore":8,"fitAfter":7,"lost":["shop/db"],"time":"2026-03-01T12:00:00Z"}}`,
		},
		"a trial of the first generation": {
			running(6, func(p *v1alpha1.SchedulingProfile) { p.Status.Trial = &v1alpha1.TrialStatus{Sampled: 2} }),
			`{"trial":{"sampled":2,"fitBefore":null,"fitAfter":0,"lost":[],"time":null}}`,
		},
	} {
		t.Run(name, func(t *testing.T) { checkRecord(t, profileRecord(c.profile), c.want) })
	}
}

func TestANodeIsConverted(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"a node without anything": {
			fixture.Node("n1").Obj(),
			`{"name":"n1","zone":"","ready":false,"cordoned":false,"taints":[],"cpu":0,"memory":0,"pods":110,"extended":{},"devices":0}`,
		},
		"a node with all": {
			fixture.Node("n1").Zone("a").Capacity("cpu", "7500m", "memory", "16Gi", "nvidia.com/gpu", "4", "hugepages-2Mi", "4Mi", "kubernetes.io/batch-cpu", "1", "mykubernetes.io/x", "1", "requests.nvidia.com/gpu", "1").
				Label(corev1.LabelInstanceTypeStable, "m6.large").
				Taint("dedicated", "gpu", corev1.TaintEffectNoSchedule).Taint("spot", "", corev1.TaintEffectPreferNoSchedule).Unschedulable().
				Mutate(func(n *corev1.Node) {
					n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
				}).Obj(),
			`{"name":"n1","zone":"a","instanceType":"m6.large","ready":true,"cordoned":true,"taints":["dedicated=gpu:NoSchedule","spot:PreferNoSchedule"],"cpu":7500,"memory":17179869184,"pods":110,
			"extended":{"nvidia.com/gpu":4},"devices":0}`,
		},
		"a node that is not ready": {
			fixture.Node("n1").Mutate(func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			}).Obj(),
			`{"ready":false}`,
		},
	} {
		t.Run(name, func(t *testing.T) { checkRecord(t, nodeRecord(c.node), c.want) })
	}
}

func TestAPodIsConverted(t *testing.T) {
	pod := func() *fixture.PodBuilder { return fixture.Pod("shop/web").SchedulerName("batch").Bare() }
	annotation := func(node string, devices ...string) string {
		return decision.Annotation(decision.Decision{Profile: "batch", Node: node, Devices: devices})
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // empty: the pod is not shown
	}{
		"a pod that has ended":  {pod().Mutate(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }).Obj(), ""},
		"a pod that has failed": {pod().Mutate(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }).Obj(), ""},
		"a pod without requests": {
			pod().Mutate(func(p *corev1.Pod) { p.CreationTimestamp = kubectltest.Ago(time.Hour) }).Obj(),
			`{"key":"shop/web","uid":"shop/web","profile":"batch","node":"","phase":"","cpu":0,"memory":0,"created":"2026-03-01T11:00:00Z","bound":null,
			"reason":"","message":"","owner":"","annotated":false,"priority":0}`,
		},
		"the largest of containers, init containers and sidecars, and the overhead": {
			pod().Requests("cpu", "500m", "memory", "1Gi").Requests("cpu", "1", "nvidia.com/gpu", "1").InitRequests("cpu", "4").SidecarRequests("cpu", "100m").Overhead("cpu", "10m").Obj(),
			`{"cpu":4010,"memory":1073741824,"extended":{"nvidia.com/gpu":1}}`,
		},
		"a pending pod": {
			kubectltest.WithPodScheduled(pod().Priority(9).Owner("ReplicaSet", "web-5d4f").Obj(), corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available"),
			`{"reason":"Unschedulable","message":"0/3 nodes are available","owner":"ReplicaSet/web-5d4f","priority":9,"bound":null}`,
		},
		"a pending pod with a nominated node, in a queue of Kueue": {
			pod().Label("kueue.x-k8s.io/queue-name", "team-a").Mutate(func(p *corev1.Pod) { p.Status.NominatedNodeName = "n3" }).Obj(),
			`{"nominated":"n3","queue":"team-a","node":""}`,
		},
		"a bound pod was nominated before": {
			pod().On("n1").Mutate(func(p *corev1.Pod) { p.Status.NominatedNodeName = "n3" }).Obj(), `{"node":"n1"}`,
		},
		"a bound pod": {
			kubectltest.WithPodScheduled(pod().On("n1").Terminating().Annotation(v1alpha1.AnnotationDecision, "{}").Mutate(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }).Obj(), corev1.ConditionTrue, "", ""),
			`{"node":"n1","phase":"Running","bound":"2026-03-01T11:50:00Z","annotated":true,"terminating":true,"reason":""}`,
		},
		"a pod with claims": {pod().ResourceClaim("gpus").Obj(), `{"devices":1}`},
		"a pod whose devices are recorded": {
			pod().On("n1").ResourceClaim("gpus").Annotation(v1alpha1.AnnotationDecision, annotation("n1", "gpus=d/p/0", "gpus=d/p/1")).Obj(), `{"devices":2}`,
		},
		"a pod with the annotation of another node": {
			pod().On("n1").ResourceClaim("gpus").Annotation(v1alpha1.AnnotationDecision, annotation("n2", "gpus=d/p/0", "gpus=d/p/1")).Obj(), `{"devices":1}`,
		},
		"a pod with an annotation that cannot be read": {
			pod().On("n1").ResourceClaim("gpus").Annotation(v1alpha1.AnnotationDecision, "<script>").Obj(), `{"devices":1,"annotated":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			record := podRecord(c.pod)
			if c.want == "" {
				if record != nil {
					t.Errorf("it is shown: %v", record)
				}
				return
			}
			checkRecord(t, record, c.want)
		})
	}
}

func TestADecisionIsConverted(t *testing.T) {
	of := func(change func(*v1alpha1.SchedulingDecisionStatus)) *v1alpha1.SchedulingDecision {
		d := &v1alpha1.SchedulingDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		d.Status = v1alpha1.SchedulingDecisionStatus{Result: v1alpha1.ResultUnschedulable, Profile: v1alpha1.DecidedBy{Name: "batch"}, LastChange: kubectltest.Ago(time.Minute)}
		change(&d.Status)
		return d
	}
	for name, c := range map[string]struct {
		decision *v1alpha1.SchedulingDecision
		want     string // empty: it is not shown
	}{
		"the record of a binding": {of(func(s *v1alpha1.SchedulingDecisionStatus) { s.Result = v1alpha1.ResultBound }), ""},
		"a decision with little": {
			of(func(*v1alpha1.SchedulingDecisionStatus) {}),
			`{"key":"shop/web","result":"Unschedulable","profile":"batch","blockedBy":"","message":"","total":0,"feasible":0,"rejections":[],"requeue":[],
			"where":"","since":null,"group":"","lastChange":"2026-03-01T11:59:00Z"}`,
		},
		"a decision with all": {
			of(func(s *v1alpha1.SchedulingDecisionStatus) {
				s.BlockedBy, s.Message, s.Nodes = "NodeResourcesFit 480", "0/500 nodes", &v1alpha1.DecisionNodes{Total: 500, Feasible: 2}
				s.Rejections = []v1alpha1.Rejection{{Plugin: "NodeResourcesFit", Code: "Unschedulable", Reason: "Insufficient cpu", Nodes: 480}}
				s.RequeueEvents = []v1alpha1.RequeueEvents{{Plugin: "NodeResourcesFit", Events: []string{"Node/Add"}}}
				s.Queue = &v1alpha1.DecisionQueue{Where: "Unschedulable", Since: kubectltest.Ago(time.Hour)}
				s.Group = &v1alpha1.DecisionGroup{Source: v1alpha1.GroupOfPodGroup, Name: "train"}
			}),
			`{"blockedBy":"NodeResourcesFit 480","message":"0/500 nodes","total":500,"feasible":2,"group":"shop/train",
			"rejections":[{"plugin":"NodeResourcesFit","code":"Unschedulable","reason":"Insufficient cpu","nodes":480}],
			"requeue":[{"plugin":"NodeResourcesFit","events":["Node/Add"]}],"where":"Unschedulable","since":"2026-03-01T11:00:00Z"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			record := decisionRecord(c.decision)
			if c.want == "" {
				if record != nil {
					t.Errorf("it is shown: %v", record)
				}
				return
			}
			checkRecord(t, record, c.want)
		})
	}
}

func TestWhatWouldFit(t *testing.T) {
	taint := v1alpha1.Missing{Plugin: "TaintToleration", Reason: reasonTaint}
	cpu := v1alpha1.Missing{Resource: "cpu", Requested: "4", Free: "3500m"}
	node := func(name string, missing ...v1alpha1.Missing) v1alpha1.ClosestNode {
		return v1alpha1.ClosestNode{Node: name, Missing: missing}
	}
	for name, c := range map[string]struct {
		closest []v1alpha1.ClosestNode
		want    []string
	}{
		"nothing is known":              {nil, []string{}},
		"a resource":                    {[]v1alpha1.ClosestNode{node("n17", cpu)}, []string{"500m more cpu on n17"}},
		"a node without a name":         {[]v1alpha1.ClosestNode{node("", cpu)}, []string{"500m more cpu on a node"}},
		"memory":                        {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "memory", Requested: "8Gi", Free: "6Gi"})}, []string{"2Gi more memory on n1"}},
		"a negative amount is free":     {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "cpu", Requested: "1", Free: "-1"})}, []string{"2 more cpu on n1"}},
		"an amount that is no quantity": {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "cpu", Requested: "<b>", Free: "1"})}, []string{"more cpu on n1"}},
		"enough is free by now":         {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "cpu", Requested: "1", Free: "2"})}, []string{"more cpu on n1"}},
		"a place for a pod":             {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "pods", Requested: "1", Free: "0"})}, []string{"1 more pod on n1"}},
		"devices":                       {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{DeviceRequest: "gpus/r", Requested: "4", Free: "1"})}, []string{"3 more devices for gpus/r on n1"}},
		"the only taint of a node":      {[]v1alpha1.ClosestNode{node("tainted", taint)}, []string{"a toleration of taint dedicated=gpu on tainted"}},
		"a taint that Kubernetes set":   {[]v1alpha1.ClosestNode{node("lost", taint)}, []string{"no taint node.kubernetes.io/unreachable on lost"}},
		"many CPUs":                     {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "cpu", Requested: "40", Free: "1500m"})}, []string{"38.5 more cpu on n1"}},
		"much memory":                   {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "memory", Requested: "100Ti", Free: "22Gi"})}, []string{"100Ti more memory on n1"}},
		"an odd number of bytes":        {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Resource: "memory", Requested: "1100000000", Free: "100"})}, []string{"1.1Gi more memory on n1"}},
		"one of several taints":         {[]v1alpha1.ClosestNode{node("several", taint)}, []string{"no untolerated taint on several"}},
		"a taint of no known node":      {[]v1alpha1.ClosestNode{node("", taint)}, []string{"no untolerated taint on a node"}},
		"another reason":                {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Plugin: "NodeUnschedulable", Reason: "node(s) were unschedulable"})}, []string{"no cordon on n1"}},
		"a reason of another plugin":    {[]v1alpha1.ClosestNode{node("n1", v1alpha1.Missing{Plugin: "Own", Reason: "node(s) were old"})}, []string{"no rejection by Own (were old) on n1"}},
		"several things on a node": {
			[]v1alpha1.ClosestNode{node("n1", cpu, taint, v1alpha1.Missing{Resource: "memory", Requested: "2Gi", Free: "1Gi"})},
			[]string{"500m more cpu, no untolerated taint and 1Gi more memory on n1"},
		},
		"equal sentences are sent once, and three at most": {
			[]v1alpha1.ClosestNode{node("", cpu), node("", cpu), node("n1", cpu), node("n2", cpu), node("n3", cpu)},
			[]string{"500m more cpu on a node", "500m more cpu on n1", "500m more cpu on n2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			taints := map[string][]string{"tainted": {"dedicated=gpu:NoSchedule", "spot:PreferNoSchedule"}, "several": {"a:NoSchedule", "b:NoExecute"}, "lost": {"node.kubernetes.io/unreachable:NoSchedule"}}
			got := fitsOf(c.closest, func(node string) []string { return taints[node] })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestDevicesOfASliceAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		slice client.Object
		want  any
	}{
		"a slice of a node":    {fixture.ResourceSlice("n1", "gpu.example.com").Device("d0", fixture.Attributes{}).Device("d1", fixture.Attributes{}).Obj(), nodeDevices{"n1", 2}},
		"a slice of all nodes": {fixture.ResourceSlice("", "net.example.com").Device("d0", fixture.Attributes{}).Obj(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sliceRecord(c.slice); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
