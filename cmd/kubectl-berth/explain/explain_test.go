package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/kubectltest"
)

// runningBatch is a profile that is running, and its hash.
func runningBatch() (*v1alpha1.SchedulingProfile, string) {
	p := kubectltest.Profile("batch", 6)
	p = kubectltest.Running(p, kubectltest.Revision(p, 1), 6)
	p.Status.Queue = &v1alpha1.QueueStatus{Pending: 3, Unschedulable: 2, Gated: 1}
	return p, p.Status.Programmed.Hash
}

// boundPod is a pod on n17 with the decision in its annotation.
func boundPod(d decision.Decision) *corev1.Pod {
	pod := kubectltest.WithPodScheduled(kubectltest.Pod("web", "batch", "n17"), corev1.ConditionTrue, "", "")
	pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: decision.Annotation(d)}
	return pod
}

func boundDecision(hash string) decision.Decision {
	share := func(node string, fit int64) decision.NodeScore {
		return decision.NodeScore{Node: node, Score: fit + 387, Plugins: map[string]int64{
			"NodeResourcesFit": fit, "NodeResourcesBalancedAllocation": 87, "TaintToleration": 300, "ImageLocality": 0,
		}}
	}
	return decision.Decision{
		Profile: "batch", Generation: 6, Hash: hash, Epoch: 3, Node: "n17", Evaluated: 500, Feasible: 412, Attempts: 2,
		Top: []decision.NodeScore{share("n17", 95), share("n4", 90), share("n9", 71)},
	}
}

// changedDecision is boundDecision after a change.
func changedDecision(hash string, change func(*decision.Decision)) decision.Decision {
	d := boundDecision(hash)
	change(&d)
	return d
}

func TestExplain(t *testing.T) {
	p, hash := runningBatch()
	waits := func(reason, message string) *corev1.Pod {
		return kubectltest.WithPodScheduled(kubectltest.Pod("web", "batch", ""), corev1.ConditionFalse, reason, message)
	}
	leaving, gone := kubectltest.Pod("web", "batch", ""), kubectltest.Ago(time.Minute)
	leaving.DeletionTimestamp, leaving.Finalizers = &gone, []string{"berth.dev/test"}
	preempting := waits("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
	preempting.Status.NominatedNodeName = "n2"
	many := changedDecision(hash, func(d *decision.Decision) {
		d.Top = nil
		for i := range 6 {
			d.Top = append(d.Top, decision.NodeScore{Node: fmt.Sprintf("ip-10-0-%d-17.eu-central-1", i), Score: 5, Plugins: map[string]int64{"NodeResourcesFit": 5}})
		}
		d.Top[0].Node = "n17"
	})
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		tenant bool
	}{
		"a bound pod": {pod: boundPod(boundDecision(hash))},
		"a bound pod, another generation is running":  {pod: boundPod(boundDecision("0123456789"))},
		"a bound pod, no permission to list profiles": {pod: boundPod(boundDecision(hash)), tenant: true},
		"a bound pod with six best nodes":             {pod: boundPod(many)},
		"a bound pod without scores by plugin":        {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Top = []decision.NodeScore{{Node: "n17", Score: 587}} }))},
		"a bound pod with one feasible node":          {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Top, d.Feasible = nil, 1 }))},
		"a bound pod with devices": {pod: boundPod(changedDecision(hash, func(d *decision.Decision) {
			d.Devices = []string{"gpu=gpu.example.com/n17/d0", "example.com/card=card.example.com/n17/d3"}
		}))},
		"a bound pod of topScores 0":           {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Top = nil }))},
		"a bound pod of detail Reasons":        {pod: boundPod(boundDecision(hash).WithoutNodes())},
		"a bound pod with a forged annotation": {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Node = "n1" }))},
		"a bound pod without an annotation":    {pod: kubectltest.Pod("web", "batch", "n17")},
		"a bound pod of kube-scheduler":        {pod: kubectltest.Pod("web", "default-scheduler", "n17")},
		"a bound pod of another scheduler":     {pod: kubectltest.Pod("web", "volcano", "n17")},
		"a pod that fits nowhere":              {pod: waits("Unschedulable", "0/500 nodes are available: 480 Insufficient cpu, 20 node(s) had untolerated taint(s). preemption: 0/500 nodes are available: 500 Preemption is not helpful for scheduling.")},
		"a pod whose profile is paused":        {pod: waits("ProfilePaused", "SchedulingProfile batch is paused")},
		"a nominated pod":                      {pod: preempting},
		"a pod without a condition":            {pod: kubectltest.Pod("web", "batch", "")},
		"a pod that is being deleted":          {pod: leaving},
		"a pod of a misspelled profile":        {pod: kubectltest.Pod("web", "bacth", "")},
		"a pod of a deleted profile":           {pod: kubectltest.WithPodScheduled(kubectltest.Pod("web", "nightly", ""), corev1.ConditionFalse, "ProfileDeleted", "there is no SchedulingProfile nightly any more")},
		"a pending pod of kube-scheduler":      {pod: kubectltest.WithPodScheduled(kubectltest.Pod("web", "default-scheduler", ""), corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available.")},
		"a pending pod of another scheduler":   {pod: kubectltest.WithPodScheduled(kubectltest.Pod("web", "volcano", ""), corev1.ConditionFalse, "Unschedulable", "no queue")},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, c.pod, p.DeepCopy())
			if c.tenant {
				env.Fail = func(_ string, object any) error {
					if _, ok := object.(*v1alpha1.SchedulingProfileList); ok {
						return errors.New("schedulingprofiles.berth.dev is forbidden")
					}
					return nil
				}
			}
			kubectltest.Golden(t, name, env.Run(New, "pod/web"), false)
		})
	}
}

// An extender that binds a pod writes no annotation.
func TestExplainNamesTheExtenderThatBindsAPod(t *testing.T) {
	p, _ := runningBatch()
	p.Spec.Extenders = []v1alpha1.Extender{kubectltest.Extender("rack"), kubectltest.Extender("gpu", "example.com/gpu")}
	p.Spec.Extenders[1].Verbs.Bind = "bind"
	pod := kubectltest.Pod("web", "batch", "n17")
	kubectltest.Golden(t, "a bound pod that the extender does not bind", kubectltest.New(t, pod.DeepCopy(), p.DeepCopy()).Run(New, "pod/web"), false)
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}
	kubectltest.Golden(t, "a bound pod that an extender binds", kubectltest.New(t, pod, p).Run(New, "pod/web"), false)
}

func TestAPodIsNamedAsForKubectl(t *testing.T) {
	p, hash := runningBatch()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"by kind and name":         {[]string{"pod/web"}, "default/web: bound to node n17"},
		"by a short kind":          {[]string{"po/web"}, "default/web: bound to node n17"},
		"by kind, space, name":     {[]string{"pod", "web"}, "default/web: bound to node n17"},
		"by name":                  {[]string{"web"}, "default/web: bound to node n17"},
		"another kind":             {[]string{"node/web"}, `"node/web": unsupported kind`},
		"two of them":              {[]string{"pod/web", "pod/db"}, `unexpected argument "pod/db"`},
		"a Deployment that is not": {[]string{"deploy/web"}, `Deployment "web" not found in namespace "default"; use -n for another namespace`},
		"a matrix of many":         {[]string{"deploy/web", "--matrix"}, "--matrix: takes one pod, as pod/NAME"},
		"one that is not there":    {[]string{"db"}, `pod "db" not found in namespace "default"; use -n for another namespace`},
		"another kind and a space": {[]string{"node", "web"}, "unsupported kind"},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, []client.Object{boundPod(boundDecision(hash)), p.DeepCopy()}...)
			if got := env.Run(New, c.args...); !strings.Contains(got, c.want) {
				t.Errorf("not %q: %s", c.want, got)
			}
		})
	}
}
