package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/cache"
)

// errNodeOrder means that the log would be useless.
var errNodeOrder = errors.New("the order in which Berth iterates over the nodes could not be inferred: no likely order has the checksum of its decisions; " +
	"set --node-order to the output of /debug/berth/order?format=json of the leader, see docs/debugging.md")

// findNodeOrder returns the initial nodes in the order in which Berth observed them. That
// order cannot be read from the API server: likely orders are tried until one has the
// checksum of the first decision.
//
// The nodes that existed when Berth started were observed in the order of their names. Each
// later one was observed when it was created, which is known to the second; if it has not
// changed since, its resource version is more precise. Berth may also have started within
// that second. The order of --node-order is tried first, with all other nodes after those
// that it names.
func (b *logBuilder) findNodeOrder(all []recordedDecision) ([]*v1.Node, error) {
	byName := slices.SortedFunc(slices.Values(b.nodes), func(x, y *v1.Node) int { return cmp.Compare(x.Name, y.Name) })
	if len(all) == 0 {
		return byName, nil
	}
	first := &all[0]
	fits := func(nodes []*v1.Node) bool { return b.checksumAt(nodes, first) == first.Walk.Order }
	byVersion := slices.SortedStableFunc(slices.Values(byName), func(x, y *v1.Node) int { return cmp.Compare(resourceVersion(x), resourceVersion(y)) })
	for _, later := range [][]*v1.Node{b.inGivenOrder(byVersion), byVersion, byName} {
		if fits(later) {
			return later, nil
		}
	}
	for _, betweenSeconds := range []bool{true, false} {
		for _, ties := range [][]*v1.Node{byVersion, byName} {
			for nodes := range restartOrders(ties, betweenSeconds) {
				if fits(nodes) {
					return nodes, nil
				}
			}
		}
	}
	return nil, errNodeOrder
}

// restartOrders yields the orders in which a process observes the nodes that starts between
// the creations of two of them: those before by name, the later ones by age, and those of
// one second as in ties. betweenSeconds selects the starts between two seconds in which
// nodes were created; the others are within one.
func restartOrders(ties []*v1.Node, betweenSeconds bool) iter.Seq[[]*v1.Node] {
	byAge := slices.SortedStableFunc(slices.Values(ties), func(x, y *v1.Node) int {
		return x.CreationTimestamp.Compare(y.CreationTimestamp.Time)
	})
	return func(yield func([]*v1.Node) bool) {
		for existing := range len(byAge) {
			if between := existing == 0 || !byAge[existing].CreationTimestamp.Equal(&byAge[existing-1].CreationTimestamp); between != betweenSeconds {
				continue
			}
			nodes := slices.Clone(byAge)
			slices.SortFunc(nodes[:existing], func(x, y *v1.Node) int { return cmp.Compare(x.Name, y.Name) })
			if !yield(nodes) {
				return
			}
		}
	}
}

// inGivenOrder returns the nodes that --node-order names, in its order, and then the others.
func (b *logBuilder) inGivenOrder(others []*v1.Node) (nodes []*v1.Node) {
	named := map[string]bool{}
	for _, name := range b.nodeOrder {
		if at := slices.IndexFunc(b.nodes, func(n *v1.Node) bool { return n.Name == name }); at >= 0 {
			nodes, named[name] = append(nodes, b.nodes[at]), true
		}
	}
	return append(nodes, slices.DeleteFunc(slices.Clone(others), func(n *v1.Node) bool { return named[n.Name] })...)
}

// readOrder reads the order of nodes from the output of /debug/berth/order, as JSON or as
// text.
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
		order.Nodes = lines[1:] // after the title
	}
	if len(order.Nodes) == 0 {
		return nil, fmt.Errorf("%s: contains no nodes: must be the output of /debug/berth/order", file)
	}
	return order.Nodes, nil
}

// checksumAt returns the checksum of an order after the changes that a decision had
// observed.
func (b *logBuilder) checksumAt(nodes []*v1.Node, d *recordedDecision) uint32 {
	order := cache.NewNodeOrder()
	for _, node := range nodes {
		order.Set(node)
	}
	for i := range b.changes {
		node, is := b.changes[i].object.(*v1.Node)
		switch {
		case !is || b.changes[i].version > d.Walk.Nodes:
		case b.changes[i].deleted:
			order.Remove(node.Name)
		default:
			order.Set(node)
		}
	}
	return order.Checksum()
}
