package try

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/compile"
)

// change takes nodes away and adds others, as was asked.
func (o *options) changeNodes(s *state.State) error {
	for _, name := range o.withoutNodes {
		if err := o.removeNode(s, name); err != nil {
			return err
		}
	}
	if len(o.withNodes) == 0 {
		return nil
	}
	documents, err := manifest.ReadAny("--with-node", o.withNodes, o.In)
	if err != nil {
		return err
	}
	for _, d := range documents {
		node, err := nodeOf(d)
		if err == nil && findNode(s, node.Name) != nil {
			err = fmt.Errorf("metadata.name: there is a node %q already; take it away with --without-node first", node.Name)
		}
		if err != nil {
			return fmt.Errorf("--with-node: %s: %w", d.Source, err)
		}
		s.Nodes = append(s.Nodes, node)
	}
	return nil
}

func findNode(s *state.State, name string) *v1.Node {
	at := slices.IndexFunc(s.Nodes, func(n *v1.Node) bool { return n.Name == name })
	if at < 0 {
		return nil
	}
	return s.Nodes[at]
}

// without takes a node away, and the pods that are on it.
func (o *options) removeNode(s *state.State, name string) error {
	node := findNode(s, name)
	if node == nil {
		var names []string
		for _, n := range s.Nodes {
			names = append(names, n.Name)
		}
		text := fmt.Sprintf("--without-node: there is no node %q", name)
		if near := compile.Suggest(name, names); near != "" {
			text += fmt.Sprintf(", did you mean %q?", near)
		}
		return errors.New(text)
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n *v1.Node) bool { return n == node })
	before := len(s.Pods)
	s.Pods = slices.DeleteFunc(s.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == name })
	o.note("node %s is taken away, and %s on it: gone from the copy, not placed anew", name, show.Count(before-len(s.Pods), "pod"))
	return nil
}

// nodeOf reads a Node that somebody made up.
func nodeOf(d manifest.Document) (*v1.Node, error) {
	if gvk := d.Object.GroupVersionKind(); gvk != v1.SchemeGroupVersion.WithKind("Node") {
		return nil, fmt.Errorf("kind: must be Node of v1, is %s of %s", gvk.Kind, gvk.GroupVersion())
	}
	node := &v1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(d.Object.Object, node, true); err != nil {
		return nil, err
	}
	if node.Name == "" {
		return nil, errors.New("metadata.name: Required value")
	}
	if node.Status.Allocatable == nil { // as the API server does
		node.Status.Allocatable = node.Status.Capacity
	}
	if len(node.Status.Allocatable) == 0 {
		return nil, errors.New("status.allocatable: Required value: nothing has room on a node without it")
	}
	if _, ok := node.Status.Allocatable[v1.ResourcePods]; !ok {
		return nil, errors.New("status.allocatable.pods: Required value: without it no pod has room")
	}
	if node.Labels[v1.LabelHostname] == "" {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[v1.LabelHostname] = node.Name
	}
	return node, nil
}
