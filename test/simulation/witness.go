package simulation

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// registry is what profiles choose from: the plugins in the tree and the
// simulation's own.
func (w *world) registry() framework.Registry {
	registry, err := plugins.With(plugins.InTree(),
		plugins.Register(witnessName, w.newWitness, (*witness)(nil), (*WitnessArgs)(nil)),
		plugins.Register(probeName, w.newProbe, (*probe)(nil), (*ProbeArgs)(nil)),
		plugins.Register(orderName, w.newOrder, (*order)(nil), (*OrderArgs)(nil)),
	)
	if err != nil {
		w.fail("the registry: %v", err)
	}
	for _, name := range []string{witnessName, probeName, orderName} {
		plugin := registry[name]
		plugin.InTree = name != probeName || !w.swarm.foreign
		registry[name] = plugin
	}
	return registry
}

// instance is what all of the simulation's plugins have: it knows when they
// are used after their end.
type instance struct {
	world  *world
	name   string
	life   int
	closed bool
}

func (w *world) newInstance(name string) instance {
	return instance{world: w, name: name, life: w.life}
}

func (i *instance) Name() string { return i.name }

// Close ends the instance.
func (i *instance) Close() error {
	i.alive("Close")
	i.closed = true
	i.world.count(i.name + " closed")
	return nil
}

// alive holds a call to the life of its instance; what a process that was
// killed still does counts for nothing.
func (i *instance) alive(point string) {
	if i.closed && i.life == i.world.life {
		i.world.fail("%s of %s was called after it was closed", point, i.name)
	}
}

// use begins a call: others may come in between.
func (i *instance) use(point string) {
	i.alive(point)
	i.world.breathe()
}

const witnessName = "Witness"

// WitnessArgs are the arguments of Witness.
type WitnessArgs struct {
	metav1.TypeMeta
	// Mark is another one in each spec that is applied.
	Mark int `json:"mark"`
}

// DeepCopyObject makes WitnessArgs a runtime.Object.
func (a *WitnessArgs) DeepCopyObject() runtime.Object {
	clone := *a
	return &clone
}

// witness is in every profile, before Probe. It lets everything pass and notes
// what was decided, by which spec and from what view of the cluster.
type witness struct {
	instance
	mark int
}

func (w *world) newWitness(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	w.open++
	return &witness{w.newInstance(witnessName), args.(*WitnessArgs).Mark}, nil
}

// Close counts the generations that are left.
func (n *witness) Close() error {
	n.world.open--
	return n.instance.Close()
}

// PreFilter looks at the cluster as it is known now: nothing came between the
// Refresh and this. An attempt beside the loop is a task that was started right
// after the Refresh, and knows what was known then.
func (n *witness) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	n.alive("PreFilter")
	if current := n.world.tasks.current; current.name == loopTask {
		current.view = n.world.known()
	}
	return nil, nil
}

func (n *witness) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Reserve notes where the pod is to go.
func (n *witness) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	n.alive("Reserve")
	n.world.decide(pod, node, n.mark)
	return nil
}

// Unreserve comes after Probe's: what was claimed last is given back first.
func (n *witness) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	n.alive("Unreserve")
	for _, p := range n.world.probes {
		if on, still := p.reserved[pod.UID]; still && p.life == n.world.life {
			n.world.fail("%s was unreserved on %s by Witness before Probe, which holds it on %s", describe(pod), node, on)
		}
	}
	if n.life == n.world.life {
		n.world.undo(pod, node)
	}
}

const orderName = "Order"

// OrderArgs are the arguments of Order.
type OrderArgs struct {
	metav1.TypeMeta
	// Last lets the less important pod go first.
	Last bool `json:"last"`
}

// DeepCopyObject makes OrderArgs a runtime.Object.
func (a *OrderArgs) DeepCopyObject() runtime.Object {
	clone := *a
	return &clone
}

// order sorts the queue by priority, up or down.
type order struct {
	instance
	last bool
}

func (w *world) newOrder(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	return &order{w.newInstance(orderName), args.(*OrderArgs).Last}, nil
}

// Less is called under the queue's lock, so that nobody may come in between.
func (o *order) Less(a, b fwk.QueuedEntityInfo) bool {
	o.alive("Less")
	if mine, other := a.GetPriority(), b.GetPriority(); mine != other {
		return (mine > other) != o.last
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}
