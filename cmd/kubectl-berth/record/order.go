package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox"
)

// errOrder says that the record is worth nothing.
var errNodeOrder = errors.New("the order in which Berth tries the nodes could not be found out: none that is likely has the checksum that its decisions tell; " +
	"--node-order takes it from the process that decides: /debug/berth/order?format=json, see docs/debugging.md")

// likely returns the nodes that the log begins with in the order in which Berth
// heard of them. That is not to be seen from outside: the likely orders are tried,
// until one has the checksum that the first of the decisions tells.
//
// Those that were there when Berth started came in the order of their names. Each
// later one came when it was created, which is known to the second; where it has
// not changed since, its resource version tells more. What --node-order says is
// tried first, and then all others came after the nodes that it names.
func (a *logBuilder) findNodeOrder(all []recordedDecision) ([]*v1.Node, error) {
	byName := slices.SortedFunc(slices.Values(a.nodes), func(x, y *v1.Node) int { return cmp.Compare(x.Name, y.Name) })
	if len(all) == 0 {
		return byName, nil
	}
	first := &all[0]
	fits := func(nodes []*v1.Node) bool { return a.checksumAt(nodes, first) == first.Walk.Order }
	byVersion := slices.SortedStableFunc(slices.Values(byName), func(x, y *v1.Node) int { return cmp.Compare(resourceVersion(x), resourceVersion(y)) })
	for _, later := range [][]*v1.Node{a.inGivenOrder(byVersion), byVersion, byName} {
		if fits(later) {
			return later, nil
		}
	}
	for _, ties := range [][]*v1.Node{byVersion, byName} {
		byAge := slices.SortedStableFunc(slices.Values(ties), func(x, y *v1.Node) int {
			return x.CreationTimestamp.Compare(y.CreationTimestamp.Time)
		})
		for there := range len(byAge) {
			if there > 0 && byAge[there].CreationTimestamp.Equal(&byAge[there-1].CreationTimestamp) {
				continue
			}
			nodes := slices.Clone(byAge)
			slices.SortFunc(nodes[:there], func(x, y *v1.Node) int { return cmp.Compare(x.Name, y.Name) })
			if fits(nodes) {
				return nodes, nil
			}
		}
	}
	return nil, errNodeOrder
}

// asTold puts the nodes first that --node-order names, in its order.
func (a *logBuilder) inGivenOrder(others []*v1.Node) (nodes []*v1.Node) {
	named := map[string]bool{}
	for _, name := range a.nodeOrder {
		if at := slices.IndexFunc(a.nodes, func(n *v1.Node) bool { return n.Name == name }); at >= 0 {
			nodes, named[name] = append(nodes, a.nodes[at]), true
		}
	}
	return append(nodes, slices.DeleteFunc(slices.Clone(others), func(n *v1.Node) bool { return named[n.Name] })...)
}

// readOrder reads the order of the nodes from what /debug/berth/order says, as
// JSON or as text.
func readOrder(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var order struct {
		Nodes []string `json:"nodes"`
	}
	if json.Unmarshal(text, &order) != nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		order.Nodes = lines[1:] // after the headline
	}
	if len(order.Nodes) == 0 {
		return nil, fmt.Errorf("%s: names no nodes: it must be what /debug/berth/order says", file)
	}
	return order.Nodes, nil
}

// sumAt is the checksum of an order when the changes have happened that a decision
// had heard of.
func (a *logBuilder) checksumAt(nodes []*v1.Node, d *recordedDecision) uint32 {
	order := sandbox.NewNodeOrder()
	for _, node := range nodes {
		order.Set(node)
	}
	for i := range a.changes {
		node, is := a.changes[i].object.(*v1.Node)
		switch {
		case !is || a.changes[i].version > d.Walk.Nodes:
		case a.changes[i].deleted:
			order.Remove(node.Name)
		default:
			order.Set(node)
		}
	}
	return order.Checksum()
}
