package debug

import (
	"context"
	"fmt"
	"io"
	"time"
)

// NodeOrder is the order in which nodes are filtered: one node of each zone in turn,
// zones and the nodes of a zone in the order in which this process added them.
type NodeOrder struct {
	Time time.Time `json:"time"`
	// Stale is why the snapshot could not be updated, so that the nodes are shown as of
	// the last scheduling cycle; empty when they are current.
	Stale string   `json:"stale,omitempty"`
	Nodes []string `json:"nodes"`
}

// DumpNodeOrder copies the names of the nodes, in order.
func (d Debugger) DumpNodeOrder(ctx context.Context) NodeOrder {
	return NodeOrder{Time: d.Now(), Stale: d.updateSnapshot(ctx), Nodes: d.Cache.NodeNames()}
}

// WriteText writes o as text.
func (o NodeOrder) WriteText(w io.Writer) error {
	stale := ""
	if o.Stale != "" {
		stale = ", not up to date: " + o.Stale
	}
	fmt.Fprintf(w, "%d nodes at %s%s\n", len(o.Nodes), formatTime(o.Time), stale)
	for _, name := range o.Nodes {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}
