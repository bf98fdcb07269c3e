package try

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/compile"
)

// changeNodes removes and adds the nodes of the flags.
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
			err = fmt.Errorf("metadata.name: node %q exists already; remove it with --without-node", node.Name)
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

// removeNode removes a node and the pods on it.
func (o *options) removeNode(s *state.State, name string) error {
	node := findNode(s, name)
	if node == nil {
		var names []string
		for _, n := range s.Nodes {
			names = append(names, n.Name)
		}
		text := fmt.Sprintf("--without-node: node %q not found", name)
		if near := compile.Suggest(name, names); near != "" {
			text += fmt.Sprintf(", did you mean %q?", near)
		}
		return errors.New(text)
	}
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n *v1.Node) bool { return n == node })
	before := len(s.Pods)
	s.Pods = slices.DeleteFunc(s.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == name })
	o.note("node %s removed from the copy, with %s on it, which are not scheduled again", name, show.Count(before-len(s.Pods), "pod"))
	return nil
}

// nodeOf reads a Node from a file.
func nodeOf(d manifest.Document) (*v1.Node, error) {
	if gvk := d.Object.GroupVersionKind(); gvk != v1.SchemeGroupVersion.WithKind("Node") {
		return nil, fmt.Errorf("kind: must be Node of apiVersion v1, is %s of %s", gvk.Kind, gvk.GroupVersion())
	}
	node := &v1.Node{}
	if err := manifest.Decode(d.Object, node); err != nil {
		return nil, err
	}
	if node.Name == "" {
		return nil, errors.New("metadata.name: Required value")
	}
	if node.Status.Allocatable == nil { // as the API server does
		node.Status.Allocatable = node.Status.Capacity
	}
	if len(node.Status.Allocatable) == 0 {
		return nil, errors.New("status.allocatable: Required value: no pod fits on a node without it")
	}
	if _, ok := node.Status.Allocatable[v1.ResourcePods]; !ok {
		return nil, errors.New("status.allocatable.pods: Required value: no pod fits on a node without it")
	}
	if node.Labels[v1.LabelHostname] == "" {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[v1.LabelHostname] = node.Name
	}
	return node, nil
}
