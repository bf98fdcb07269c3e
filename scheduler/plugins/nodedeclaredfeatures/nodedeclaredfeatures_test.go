package nodedeclaredfeatures

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// restartAllFeature is the feature that podWithRestartAllRule requires.
const restartAllFeature = "RestartAllContainersOnContainerExits"

func podWithRestartAllRule() *v1.Pod {
	return fixture.Pod("a").Requests().Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
			{Action: v1.ContainerRestartRuleActionRestartAllContainers},
		}
	}).Obj()
}

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		pod   *v1.Pod
		node  *fixture.NodeBuilder
		skips bool
		want  *fwk.Status
	}{
		"a pod without required features skips Filter": {pod: fixture.Pod("a").Requests().Obj(), skips: true},
		"a node that declares the feature fits":        {pod: podWithRestartAllRule(), node: fixture.Node("n").DeclaredFeatures("Other", restartAllFeature)},
		"a node that does not declare it is rejected": {
			pod: podWithRestartAllRule(), node: fixture.Node("n").DeclaredFeatures("Other"),
			want: fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match Pod's required features"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, state := &Plugin{}, framework.NewCycleState()
			_, status := plugin.PreFilter(t.Context(), state, c.pod, nil)
			if status.IsSkip() != c.skips {
				t.Fatalf("PreFilter returns %v, want a skip: %v", status, c.skips)
			}
			if c.skips {
				return
			}
			node := framework.NewNodeInfo()
			node.SetNode(c.node.Obj())
			got := plugin.Filter(t.Context(), state, c.pod, node)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilterWithoutPreFilterIsAnError(t *testing.T) {
	status := (&Plugin{}).Filter(t.Context(), framework.NewCycleState(), podWithRestartAllRule(), framework.NewNodeInfo())
	if !status.IsError() {
		t.Errorf("status %v, want an error", status)
	}
}

func TestHints(t *testing.T) {
	plain, able := fixture.Node("n").Obj(), fixture.Node("n").DeclaredFeatures(restartAllFeature).Obj()
	simple := fixture.Pod("a").Requests().Obj()
	for name, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
		wantErr       bool
	}{
		"a new node requeues the pod":                             {hint: isSchedulableAfterNodeChange, after: plain, want: fwk.Queue},
		"a node with other features than before requeues the pod": {hint: isSchedulableAfterNodeChange, before: plain, after: able, want: fwk.Queue},
		"a node with the same features does not":                  {hint: isSchedulableAfterNodeChange, before: able, after: able, want: fwk.QueueSkip},
		"a pod that requires other features is requeued":          {hint: isSchedulableAfterTargetPodUpdate, before: podWithRestartAllRule(), after: simple, want: fwk.Queue},
		"a pod that requires the same features is not":            {hint: isSchedulableAfterTargetPodUpdate, before: podWithRestartAllRule(), after: podWithRestartAllRule(), want: fwk.QueueSkip},
		"an object of another kind is an error":                   {hint: isSchedulableAfterNodeChange, after: simple, want: fwk.Queue, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.hint(klog.Background(), podWithRestartAllRule(), c.before, c.after)
			if got != c.want || (err != nil) != c.wantErr {
				t.Errorf("hint %v, error %v, want %v, an error: %v", got, err, c.want, c.wantErr)
			}
		})
	}
}
