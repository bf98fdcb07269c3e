package debug

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Order is the order in which nodes are tried: one node of each zone in turn,
// zones and the nodes of a zone as this process heard of them.
type NodeOrder struct {
	Time time.Time `json:"time"`
	// Stale is why the nodes are shown as they were some time ago; empty: they are
	// not.
	Stale string   `json:"stale,omitempty"`
	Nodes []string `json:"nodes"`
}

// LookAtOrder copies the names of the nodes, in their order.
func (r Debugger) DumpNodeOrder(ctx context.Context) NodeOrder {
	return NodeOrder{Time: r.Now(), Stale: r.updateSnapshot(ctx), Nodes: r.Cache.NodeNames()}
}

// WriteText writes o as text.
func (o NodeOrder) WriteText(w io.Writer) error {
	stale := ""
	if o.Stale != "" {
		stale = ", not brought up to date: " + o.Stale
	}
	fmt.Fprintf(w, "%d nodes at %s%s\n", len(o.Nodes), formatTime(o.Time), stale)
	for _, name := range o.Nodes {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}
