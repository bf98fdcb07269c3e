package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
)

// In every fourth history leaders are elected, and leave writes on the wire. A leader
// that is frozen, cut off or killed sends nothing any more: what it would send after
// its Lease has ended is refused before it is sent. But all that it has sent arrives at
// any later moment, before, while and after its successor takes over: Bindings of
// pods that carry a refusal and of such that do not, patches, evictions, and writes of
// the journal. checkLate holds the Bindings to what a successor relies on.

// leaders is what the world knows of them.
type leaders struct {
	// elected says that this history has leaders.
	elected bool
	// epoch is the Lease's number of the leader, and journal the ConfigMap.
	epoch   int64
	journal *v1.ConfigMap
	// begun is how many decisions there were when the leader began.
	begun int
	// frozenAt is the kind of write at which the leader is to be frozen; empty: it is
	// not. giveUp is the step at which it is frozen at any rate.
	frozenAt string
	giveUp   int
	// booted is the step at which its successor began.
	booted int
}

// electLeaders gives the history leaders, of which each that loses its place has a
// successor.
func (w *world) electLeaders() {
	w.elected, w.epoch = true, -1
	if w.chance(0.5) {
		w.swarm.faults["journal"] = w.dice.Float64() * 0.5
	}
	// Bindings take long, and what waits is tried soon.
	w.swarm.haste.arrive = 1 + w.dice.IntN(3)
	for range 2 + w.dice.IntN(3) {
		at := len(w.plan)/4 + w.dice.IntN(len(w.plan)/2)
		w.plan[at] = act{kind{name: handedOver, do: handOver}, w.dice.Uint64()}
	}
}

const handedOver = "a leader is frozen, and has a successor"

// handovers are the things that a thousand histories must have seen.
func handovers() []string {
	return []string{
		handedOver, "a leader took over from none", "a late Binding of an earlier leader is refused: of a fresh pod",
		"a late Binding of an earlier leader is refused: of a refused pod", "a late journal of an earlier leader is refused",
	}
}

const (
	ofFresh   = " of a fresh pod"
	ofRefused = " of a refused pod"
	ofJournal = " of the journal"
)

// handOver has the leader frozen as soon as it has a write of some kind on the wire.
func handOver(w *world, dice *rand.Rand) bool {
	w.frozenAt, w.giveUp = []string{ofFresh, ofRefused, ofRefused, ofJournal}[dice.IntN(4)], w.steps+300
	return true
}

// freeze ends the process, if its time has come. What it has sent is still on the
// wire.
func (w *world) freeze() {
	onTheWire := func(r *request) bool { return !r.arrived && strings.HasSuffix(r.what, w.frozenAt) }
	if w.frozenAt == "" || w.healed || !slices.ContainsFunc(w.requests, onTheWire) && w.steps < w.giveUp {
		return
	}
	w.say("the leader is frozen; %d requests of it are on the wire", len(w.requests)+len(w.ghosts))
	w.frozenAt = ""
	w.life++
	w.tasks.endAll()
	w.clock.alarms = nil
	for _, r := range w.requests {
		if !r.arrived && r.verb != "get" && r.verb != "list" {
			r.held = w.chance(0.8)
			w.ghosts = append(w.ghosts, r)
		}
	}
	w.requests = nil
	w.boot()
	w.booted = w.steps
}

// holdsBack says whether what is held of an earlier leader does not arrive yet: until
// its successor has decided something, or seems to have nothing to decide.
func (w *world) holdsBack() bool { return w.takesOver() && w.steps < w.booted+1000 }

// takeover is what a leader that starts now asks.
func (w *world) takeover() scheduler.Handover {
	if !w.elected {
		return scheduler.Handover{}
	}
	w.epoch++
	w.begun = w.made
	epoch, life := w.epoch, w.life
	return scheduler.Handover{
		List: w.list,
		Profiles: func(context.Context) (names []string, err error) {
			for _, p := range w.profiles {
				if p.wish != nil || p.known {
					names = append(names, p.name)
				}
			}
			return names, nil
		},
		Leadership: func(context.Context) (journal.Leadership, error) {
			if epoch == 0 {
				w.count("a leader took over from none")
			}
			return journal.Leadership{Elected: true, Epoch: epoch, First: epoch == 0}, nil
		},
		Journal: journal.New(journal.Options{
			Client: &configMaps{world: w, life: life}, Holder: fmt.Sprint("life ", life), Clock: w.clock, Log: logr.Discard(),
			Go: func(work func()) { w.tasks.start("work", work).view = w.known() }, Wait: w.tasks.wait,
		}),
	}
}

// list is a quorum read.
func (w *world) list(ctx context.Context, kind schema.GroupVersionResource, _ string) (leadership.ObjectList, error) {
	var roll leadership.ObjectList
	_, err := w.call(ctx, "list", "list "+kind.Resource, func() (*v1.Pod, error) {
		roll = leadership.ObjectList{ResourceVersion: itoa(w.server.version)}
		note := func(o object) {
			roll.Objects = append(roll.Objects, leadership.ListedObject{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()})
		}
		if kind.Resource == "nodes" {
			for _, node := range w.server.sortedNodes() {
				note(node)
			}
			return nil, nil
		}
		for _, pod := range w.server.sortedPods() {
			if isLivePod(pod) {
				note(pod)
			}
		}
		return nil, nil
	})
	return roll, err
}

// takesOver says whether the leader has not decided anything yet.
func (w *world) takesOver() bool { return w.elected && w.made == w.begun }

// risk is the chance that a request goes wrong. While a leader takes over, patches
// fail less often: a pod that cannot be fenced at all is waited out, which is not what
// is looked at here.
func (w *world) risk(verb string) float64 {
	if verb == "patch" && w.takesOver() {
		return 0
	}
	return w.swarm.faults[verb]
}

// sends returns what the Binding of a process does when it arrives, and of what kind it
// is.
func (w *world) sends(life int, b *v1.Binding) (commit func() (*v1.Pod, error), kind string) {
	kind = ofFresh
	if pod := w.server.pods[keyOf(b)]; pod != nil && pod.ResourceVersion == b.ResourceVersion && binding.HasPodScheduledFalse(pod) {
		kind = ofRefused
	}
	return func() (*v1.Pod, error) {
		err := w.server.bind(b)
		if w.elected && life < w.life && w.made > w.begun {
			w.checkLate(b, kind, err)
		}
		return nil, err
	}, kind
}

// checkLate holds a Binding that an earlier leader has sent, and that arrives when the
// leader has begun to decide, to what that one relies on: it fails.
func (w *world) checkLate(b *v1.Binding, kind string, err error) {
	if err != nil {
		w.count("a late Binding of an earlier leader is refused:" + kind)
		return
	}
	w.fail("%s was bound by an earlier leader, after its successor had begun to decide", describe(w.server.pods[keyOf(b)]))
}

// configMaps is the journal's client in one process.
type configMaps struct {
	corev1.ConfigMapInterface
	world *world
	life  int
}

var configMapResource = schema.GroupResource{Resource: "configmaps"}

func (c *configMaps) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.ConfigMap, error) {
	var found *v1.ConfigMap
	_, err := c.world.call(ctx, "list", "get the journal", func() (*v1.Pod, error) {
		if found = c.world.journal; found == nil {
			return nil, apierrors.NewNotFound(configMapResource, name)
		}
		return nil, nil
	})
	return found, err
}

func (c *configMaps) Create(ctx context.Context, object *v1.ConfigMap, _ metav1.CreateOptions) (*v1.ConfigMap, error) {
	return c.write(ctx, object)
}

func (c *configMaps) Update(ctx context.Context, object *v1.ConfigMap, _ metav1.UpdateOptions) (*v1.ConfigMap, error) {
	return c.write(ctx, object)
}

// write creates the journal, or replaces it at the version that object names.
func (c *configMaps) write(ctx context.Context, object *v1.ConfigMap) (*v1.ConfigMap, error) {
	w := c.world
	var written *v1.ConfigMap
	what := fmt.Sprintf("write epoch %s (version %q), pods %q%s", object.Data["epoch"], object.ResourceVersion, object.Data["pods"], ofJournal)
	_, err := w.call(ctx, "journal", what, func() (*v1.Pod, error) {
		version := ""
		if w.journal != nil {
			version = w.journal.ResourceVersion
		}
		if version != object.ResourceVersion {
			if c.life < w.life {
				w.count("a late journal of an earlier leader is refused")
			}
			return nil, apierrors.NewConflict(configMapResource, object.Name, errors.New("the resource version is another"))
		}
		w.server.version++
		written = object.DeepCopy()
		written.ResourceVersion = itoa(w.server.version)
		w.journal = written
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// LastSyncResourceVersion is how far the watch has come.
func (i *informer) LastSyncResourceVersion() string { return i.seen }

// nodeLister reads the store, which is ahead of the handlers.
type nodeLister struct {
	corelisters.NodeLister
	of *informer
}

func (l nodeLister) Get(name string) (*v1.Node, error) {
	if o, ok := l.of.store[name]; ok {
		return o.(*v1.Node), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
}

func (l nodeLister) List(labels.Selector) ([]*v1.Node, error) {
	var nodes []*v1.Node
	for _, o := range l.of.store {
		nodes = append(nodes, o.(*v1.Node))
	}
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}
