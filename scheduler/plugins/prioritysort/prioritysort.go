// Package prioritysort sorts pods by priority, and pods of the same priority by the
// time at which they entered the queue.
package prioritysort

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Name is the name of the plugin in profiles.
const Name = "PrioritySort"

// Plugin sorts the active queue.
type Plugin struct{}

var _ fwk.QueueSortPlugin = (*Plugin)(nil)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Less reports whether a is scheduled before b.
func (*Plugin) Less(a, b fwk.QueuedEntityInfo) bool { return framework.ByPriority(a, b) }
