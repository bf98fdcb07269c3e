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

// leastSample is the fewest nodes of which a walk may leave some out.
const minSampledNodes = 100

// everywhere asks every plugin about every node, and prints what they say.
func (o *options) explainMatrix(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	reader := state.Reader{Cluster: c, In: o.In, Note: o.note}
	profile, err := reader.Running(ctx, pod.Spec.SchedulerName, "spec.schedulerName")
	if err != nil {
		return err
	}
	live, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	// It is asked about as the queue would hold it.
	live.Pods = slices.DeleteFunc(live.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	waits := pod.DeepCopy()
	waits.Spec.NodeName = ""
	profile.CheckNamespace(pod.Namespace, live, o.note)
	m, err := o.evaluateMatrix(ctx, profile, live, waits)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	m.Pod, m.CurrentNode = pod.Namespace+"/"+pod.Name, pod.Spec.NodeName
	return o.printMatrix(m)
}

func (o *options) note(format string, args ...any) {
	o.notes = append(o.notes, fmt.Sprintf(format, args...))
}

// ask lets the scheduler's plugins look at every node.
func (o *options) evaluateMatrix(ctx context.Context, p *state.Profile, live *state.State, pod *corev1.Pod) (*Matrix, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	scheduler, err := sandbox.New(ctx, sandbox.Options{Blueprint: p.Blueprint, Registry: plugins.InTree()})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Title, err)
	}
	waiting, err := live.Fill(scheduler, p)
	if err != nil {
		return nil, err
	}
	if waiting > 0 {
		o.note("besides it, %s of profile %s without a node; those that come first may take the room", show.Count(waiting, "pod"), p.Name)
	}
	if p.HeldMessage != "" {
		o.note("it is not tried at all: %s", p.HeldMessage)
	} else if plugin, status := scheduler.RunPreEnqueuePlugins(ctx, pod); plugin != "" {
		o.note("it is not tried at all: %s says: %s", plugin, status.Message())
	}
	found, err := scheduler.EvaluateAllNodes(ctx, pod)
	if err != nil {
		return nil, err
	}
	if len(found.Rows) == 0 {
		return nil, errors.New("there is no node to ask about")
	}
	m := &Matrix{Profile: p.Name, Title: p.Title, Filters: pluginNames(p, "filter"), Scores: pluginNames(p, "score")}
	m.addRows(found)
	o.noteSelection(m, pod)
	return m, nil
}

func pluginNames(p *state.Profile, point framework.Point) (names []string) {
	for _, entry := range p.Blueprint.Chains[point] {
		names = append(names, entry.Name)
	}
	return names
}

// explainChoice notes what else decides which node is taken.
func (o *options) noteSelection(m *Matrix, pod *corev1.Pod) {
	if promised := pod.Status.NominatedNodeName; promised != "" {
		o.note("room is promised to it on node %s, which is asked first, and taken where it fits", promised)
	}
	if len(m.Nodes) >= minSampledNodes && m.Feasible > 0 {
		o.note("every node was asked here; with %d nodes, a walk may stop once enough of them fit (percentageOfNodesToScore), and scores are beside those that it met",
			len(m.Nodes))
	}
	m.Notes = o.notes
}

// take puts the nodes that fit first, the best of them at the head, and then
// those that the fewest plugins refuse.
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
