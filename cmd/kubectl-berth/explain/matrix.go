package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// minSampledNodes is the fewest nodes of which scheduling may leave some out.
const minSampledNodes = 100

// explainMatrix runs every plugin on every node and prints the results.
func (o *options) explainMatrix(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	m, err := o.matrixOf(ctx, c, pod)
	if err != nil {
		return err
	}
	return o.printMatrix(m)
}

// matrixOf runs every plugin of the pod's profile on every node.
func (o *options) matrixOf(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) (*Matrix, error) {
	reader := state.Reader{Cluster: c, Note: o.note}
	profile, err := reader.Running(ctx, pod.Spec.SchedulerName, "spec.schedulerName")
	if err != nil {
		return nil, err
	}
	live, err := reader.Read(ctx)
	if err != nil {
		return nil, err
	}
	// The pod is evaluated as a pending one.
	live.Pods = slices.DeleteFunc(live.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	pending := pod.DeepCopy()
	pending.Spec.NodeName = ""
	profile.CheckNamespace(pod.Namespace, live, o.note)
	profile.NoteExtenders(pod, o.note)
	m, err := o.evaluateMatrix(ctx, reader, profile, live, pending)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	m.Pod, m.CurrentNode = pod.Namespace+"/"+pod.Name, pod.Spec.NodeName
	return m, nil
}

func (o *options) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// evaluateMatrix runs the plugins of the profile on every node.
func (o *options) evaluateMatrix(ctx context.Context, reader state.Reader, p *state.Profile, live *state.State, pod *corev1.Pod) (*Matrix, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	scheduler, err := sandbox.New(ctx, sandbox.Options{Blueprint: p.Blueprint, Registry: plugins.InTree(), Unsupported: plugins.Unsupported})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Title, err)
	}
	others, err := live.Fill(scheduler, p)
	if err != nil {
		return nil, err
	}
	if others > 0 {
		o.note("%s of profile %s also pending: pods that are scheduled first may take the resources", show.Count(others, "pod"), p.Name)
	}
	groupErr := addGroup(ctx, reader, scheduler, p, live, pod)
	if p.HeldMessage != "" {
		o.note("the pod is not scheduled now: %s", p.HeldMessage)
	} else if groupErr != nil {
		o.note("cannot tell whether the pod is gated: %v", groupErr)
	} else if plugin, status := scheduler.RunPreEnqueuePlugins(ctx, pod); plugin != "" {
		o.note("the pod is gated by plugin %s: %s", plugin, status.Message())
	}
	found, err := scheduler.EvaluateAllNodes(ctx, pod)
	if err != nil {
		return nil, err
	}
	if len(found.Rows) == 0 {
		return nil, errors.New("the cluster has no nodes")
	}
	m := &Matrix{Profile: p.Name, Title: p.Title, Filters: pluginNames(p, "filter"), Scores: pluginNames(p, "score")}
	m.addRows(found)
	o.noteSelection(m, pod)
	return m, nil
}

// addGroup adds the pod, the pending pods of its group and their PodGroup: a pod of a group is
// gated until they are complete. The pods with a node are known already.
func addGroup(ctx context.Context, reader state.Reader, scheduler *sandbox.Scheduler, p *state.Profile, live *state.State, pod *corev1.Pod) error {
	key, grouped := scheduler.GroupOf(pod)
	if !grouped {
		return nil
	}
	scheduler.AddToGroup(append(live.PendingMembers(p, key), pod))
	group, err := reader.PodGroup(ctx, key)
	if group != nil {
		scheduler.SetPodGroup(key.Source, group)
	}
	return err
}

func pluginNames(p *state.Profile, point framework.Point) (names []string) {
	for _, entry := range p.Blueprint.Chains[point] {
		names = append(names, entry.Name)
	}
	return names
}

// noteSelection adds notes about what else the choice of a node depends on.
func (o *options) noteSelection(m *Matrix, pod *corev1.Pod) {
	if nominated := pod.Status.NominatedNodeName; nominated != "" {
		o.note("the pod is nominated to node %s, which is evaluated first and chosen if it is feasible", nominated)
	}
	if len(m.Nodes) >= minSampledNodes && m.Feasible > 0 {
		o.note("all nodes were evaluated here; with %d nodes, the scheduler may stop once enough are feasible (percentageOfNodesToScore), and scores depend on the nodes that it evaluates",
			len(m.Nodes))
	}
	m.Notes = o.notes
}

// addRows adds the nodes: the feasible ones first, the best at the head, then those that the
// fewest plugins reject.
func (m *Matrix) addRows(found *cycle.Matrix) {
	if found.PreFilterStatus != nil {
		m.Rejected = &PodRejection{Plugin: found.PreFilterStatus.Plugin(), Reason: found.PreFilterStatus.Message()}
	}
	for i := range found.Rows {
		row := &found.Rows[i]
		node := Node{Node: row.Node, Feasible: row.Feasible(), Failed: row.Failed}
		for _, r := range row.Rejections {
			node.Rejections = append(node.Rejections, Rejection{Plugin: r.Plugin, Code: r.Code, Missing: r.Missing})
		}
		if row.Score != nil {
			node.Total, node.Scores = &row.Score.Score, row.Score.Plugins
		}
		if node.Feasible {
			m.Feasible++
		}
		m.Nodes = append(m.Nodes, node)
	}
	slices.SortStableFunc(m.Nodes, compareNodes)
}
