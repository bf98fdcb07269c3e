package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/plugin"
)

// batch is a profile that runs, and its hash.
func runningBatch() (*v1alpha1.SchedulingProfile, string) {
	p := plugin.Profile("batch", 6)
	p = plugin.Running(p, plugin.Revision(p, 1), 6)
	p.Status.Queue = &v1alpha1.QueueStatus{Pending: 3, Unschedulable: 2, Gated: 1}
	return p, p.Status.Programmed.Hash
}

// placed is a pod on n17 whose annotation says d.
func boundPod(d decision.Decision) *corev1.Pod {
	pod := plugin.WithPodScheduled(plugin.Pod("web", "batch", "n17"), corev1.ConditionTrue, "", "")
	pod.Annotations = map[string]string{decision.AnnotationKey: decision.Annotation(d)}
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

// with is a decision that differs from why's.
func changedDecision(hash string, change func(*decision.Decision)) decision.Decision {
	d := boundDecision(hash)
	change(&d)
	return d
}

func TestExplain(t *testing.T) {
	p, hash := runningBatch()
	waits := func(reason, message string) *corev1.Pod {
		return plugin.WithPodScheduled(plugin.Pod("web", "batch", ""), corev1.ConditionFalse, reason, message)
	}
	leaving, gone := plugin.Pod("web", "batch", ""), plugin.Ago(time.Minute)
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
	for sentence, c := range map[string]struct {
		pod    *corev1.Pod
		tenant bool
	}{
		"a bound pod":                        {pod: boundPod(boundDecision(hash))},
		"a bound pod, of what runs no more":  {pod: boundPod(boundDecision("0123456789"))},
		"a bound pod, to a tenant":           {pod: boundPod(boundDecision(hash)), tenant: true},
		"a bound pod with six best nodes":    {pod: boundPod(many)},
		"a bound pod without shares":         {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Top = []decision.NodeScore{{Node: "n17", Score: 587}} }))},
		"a bound pod with one node to go to": {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Top, d.Feasible = nil, 1 }))},
		"a bound pod of topScores 0":         {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Top = nil }))},
		"a bound pod of detail Reasons":      {pod: boundPod(boundDecision(hash).WithoutNodes())},
		"a bound pod with a forged reason":   {pod: boundPod(changedDecision(hash, func(d *decision.Decision) { d.Node = "n1" }))},
		"a bound pod that is not annotated":  {pod: plugin.Pod("web", "batch", "n17")},
		"a bound pod of kube-scheduler":      {pod: plugin.Pod("web", "default-scheduler", "n17")},
		"a bound pod of somebody else":       {pod: plugin.Pod("web", "volcano", "n17")},
		"a pod that fits nowhere":            {pod: waits("Unschedulable", "0/500 nodes are available: 480 Insufficient cpu, 20 node(s) had untolerated taint(s). preemption: 0/500 nodes are available: 500 Preemption is not helpful for scheduling.")},
		"a pod whose profile is paused":      {pod: waits("ProfilePaused", "SchedulingProfile batch is paused")},
		"a pod that waits for its victims":   {pod: preempting},
		"a pod that nobody has looked at":    {pod: plugin.Pod("web", "batch", "")},
		"a pod that is being deleted":        {pod: leaving},
		"a pod of a misspelled profile":      {pod: plugin.Pod("web", "bacth", "")},
		"a pod of a deleted profile":         {pod: plugin.WithPodScheduled(plugin.Pod("web", "nightly", ""), corev1.ConditionFalse, "ProfileDeleted", "there is no SchedulingProfile nightly any more")},
		"a pod of kube-scheduler that waits": {pod: plugin.WithPodScheduled(plugin.Pod("web", "default-scheduler", ""), corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available.")},
		"a pod of somebody else that waits":  {pod: plugin.WithPodScheduled(plugin.Pod("web", "volcano", ""), corev1.ConditionFalse, "Unschedulable", "no queue")},
	} {
		t.Run(sentence, func(t *testing.T) {
			stage := plugin.New(t, c.pod, p.DeepCopy())
			if c.tenant {
				stage.Fail = func(_ string, object any) error {
					if _, ok := object.(*v1alpha1.SchedulingProfileList); ok {
						return errors.New("schedulingprofiles.berth.dev is forbidden")
					}
					return nil
				}
			}
			plugin.Golden(t, sentence, stage.Run(New, "pod/web"), false)
		})
	}
}

func TestAPodIsNamedAsForKubectl(t *testing.T) {
	p, hash := runningBatch()
	for sentence, c := range map[string]struct {
		args []string
		want string
	}{
		"by kind and name":         {[]string{"pod/web"}, "Pod default/web is on node n17."},
		"by a short kind":          {[]string{"po/web"}, "Pod default/web is on node n17."},
		"by kind, space, name":     {[]string{"pod", "web"}, "Pod default/web is on node n17."},
		"by name":                  {[]string{"web"}, "Pod default/web is on node n17."},
		"another kind":             {[]string{"node/web"}, `"node/web": only pods are explained, and what makes them`},
		"two of them":              {[]string{"pod/web", "pod/db"}, `"pod/db" is one too many`},
		"a Deployment that is not": {[]string{"deploy/web"}, `there is no Deployment "web" in namespace "default"; -n names another`},
		"a matrix of many":         {[]string{"deploy/web", "--matrix"}, "--matrix: is about one pod, as pod/NAME"},
		"one that is not there":    {[]string{"db"}, `there is no pod "db" in namespace "default"; -n names another`},
		"another kind and a space": {[]string{"node", "web"}, "only pods are explained"},
	} {
		t.Run(sentence, func(t *testing.T) {
			stage := plugin.New(t, []client.Object{boundPod(boundDecision(hash)), p.DeepCopy()}...)
			if got := stage.Run(New, c.args...); !strings.Contains(got, c.want) {
				t.Errorf("not %q: %s", c.want, got)
			}
		})
	}
}
