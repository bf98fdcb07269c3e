// Package prioritysort puts the more important pod first, and among equals the
// one that waits longer.
package prioritysort

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Name is how profiles name the plugin.
const Name = "PrioritySort"

// Plugin orders the queue.
type Plugin struct{}

var _ fwk.QueueSortPlugin = (*Plugin)(nil)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Less reports whether a is scheduled before b.
func (*Plugin) Less(a, b fwk.QueuedEntityInfo) bool { return framework.ByPriority(a, b) }
