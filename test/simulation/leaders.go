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
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/leadership"
)

// In every fourth history leaders are elected. A leader that is frozen, cut off or killed
// sends nothing more: what it would send after its Lease has ended is refused before it is
// sent. But all that it has sent arrives at any later moment, before, during and after its
// successor's handover: Bindings of pods with and without a refusal in their status, patches,
// evictions, and writes of the journal. checkLateBinding checks what a successor relies on.

// leaders is the state of leader election.
type leaders struct {
	// elected says that leaders are elected in this history.
	elected bool
	// epoch is the current leader's leader epoch, and journal the ConfigMap.
	epoch   int64
	journal *v1.ConfigMap
	// placedBefore is the number of placements when the leader began.
	placedBefore int
	// freezeAt is the kind of write on the wire at which the leader is to be frozen; empty: it
	// is not. freezeBy is the step at which it is frozen without one.
	freezeAt string
	freezeBy int
	// startedAt is the step at which its successor began.
	startedAt int
}

// electLeaders turns leader election on, and plans leaders to be replaced.
func (sim *simulation) electLeaders() {
	sim.elected, sim.epoch = true, -1
	if sim.chance(0.5) {
		sim.settings.requestFaults["journal"] = sim.random.Float64() * 0.5
	}
	// Bindings are slow, and pending pods are retried soon.
	sim.settings.weights.arrival = 1 + sim.random.IntN(3)
	for range 2 + sim.random.IntN(3) {
		at := len(sim.plan)/4 + sim.random.IntN(len(sim.plan)/2)
		sim.plan[at] = action{actionKind{name: leaderReplaced, do: replaceLeader}, sim.random.Uint64()}
	}
}

const leaderReplaced = "a leader is frozen, and has a successor"

// requiredHandoverEvents are those of requiredEvents that only leaders cause.
func requiredHandoverEvents() []string {
	return []string{
		leaderReplaced, "a leader has no predecessor", "a late Binding of an earlier leader is refused: of a fresh pod",
		"a late Binding of an earlier leader is refused: of a refused pod", "a late journal of an earlier leader is refused",
	}
}

const (
	freshPodWrite   = " of a fresh pod"
	refusedPodWrite = " of a refused pod"
	journalWrite    = " of the journal"
	claimWrite      = " of a device claim"
)

// replaceLeader has the leader frozen as soon as it has a write of some kind on the wire.
func replaceLeader(sim *simulation, random *rand.Rand) bool {
	writes := []string{freshPodWrite, refusedPodWrite, refusedPodWrite, journalWrite}
	if sim.hasDevices() {
		writes = append(writes, claimWrite, claimWrite)
	}
	sim.freezeAt, sim.freezeBy = writes[random.IntN(len(writes))], sim.steps+300
	return true
}

// maybeFreeze freezes the leader where that is due, and starts its successor. The requests of
// the frozen leader that have not arrived stay on the wire.
func (sim *simulation) maybeFreeze() {
	onTheWire := func(r *request) bool { return !r.arrived && strings.HasSuffix(r.description, sim.freezeAt) }
	if sim.freezeAt == "" || sim.healed || !slices.ContainsFunc(sim.requests, onTheWire) && sim.steps < sim.freezeBy {
		return
	}
	sim.logf("the leader is frozen; %d requests are on the wire", len(sim.requests)+len(sim.lateWrites))
	sim.freezeAt = ""
	sim.process = sim.nextProcess()
	sim.tasks.endAll(sim.replica)
	sim.clock.waiters = nil
	for _, r := range sim.requests {
		if !r.arrived && r.verb != "get" && r.verb != "list" {
			r.held = sim.chance(0.8)
			sim.lateWrites = append(sim.lateWrites, r)
		}
	}
	sim.requests = nil
	sim.startProcess()
	sim.startedAt = sim.steps
}

// delaysLateWrites says whether a late write of an earlier leader still waits: until the
// successor has placed a pod, or 1000 steps after it began. A status waits for its successor's
// report: see releaseStatuses.
func (sim *simulation) delaysLateWrites(r *request) bool {
	switch {
	case r.verb == writeStatus:
		return sim.steps < r.heldUntil
	case sim.hasReplicas():
		return r.epoch >= sim.decidedEpoch && sim.steps < r.heldUntil
	}
	return sim.inHandover() && sim.steps < sim.startedAt+1000
}

// handover returns the handover of a leader that starts now.
func (sim *simulation) handover() scheduler.Handover {
	if sim.hasReplicas() {
		return sim.handoverOf(sim.election.leadership)
	}
	if !sim.elected {
		return scheduler.Handover{}
	}
	sim.epoch++
	sim.placedBefore = sim.placementCount
	epoch := sim.epoch
	return sim.handoverOf(func(context.Context) (journal.Leadership, error) {
		if epoch == 0 {
			sim.count("a leader has no predecessor")
		}
		return journal.Leadership{Elected: true, Epoch: epoch, First: epoch == 0}, nil
	})
}

// handoverOf returns the handover of a process that knows its leadership.
func (sim *simulation) handoverOf(known func(context.Context) (journal.Leadership, error)) scheduler.Handover {
	process := sim.process
	handover := scheduler.Handover{
		List: sim.list, Version: sim.version,
		Profiles: func(context.Context) (names []string, err error) {
			for _, p := range sim.profiles {
				if p.spec != nil || p.hasRevisions {
					names = append(names, p.name)
				}
			}
			return names, nil
		},
		Leadership: known,
		Journal: journal.New(journal.Options{
			Client: &configMaps{sim: sim, process: process}, Holder: fmt.Sprint("process ", process), Clock: sim.clock, Log: logr.Discard(),
			Go: func(work func()) { sim.tasks.start("work", work).known = sim.known() }, Wait: sim.tasks.wait,
		}),
	}
	if sim.controllers.on {
		sim.profileCache = &controllers.ProfileCache{}
		handover.ProfileCache = sim.profileCache
	}
	return handover
}

// list is a quorum read.
func (sim *simulation) list(ctx context.Context, kind schema.GroupVersionResource, _ string) (leadership.ObjectList, error) {
	var roll leadership.ObjectList
	_, err := sim.call(ctx, "list", "list "+kind.Resource, func() (*v1.Pod, error) {
		roll = leadership.ObjectList{ResourceVersion: itoa(sim.server.version)}
		note := func(o object) {
			roll.Objects = append(roll.Objects, leadership.ListedObject{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()})
		}
		if kind.Resource == "nodes" {
			for _, node := range sim.server.sortedNodes() {
				note(node)
			}
			return nil, nil
		}
		if kind.Resource == "resourceclaims" {
			for _, claim := range all[*resourceapi.ResourceClaim](sim.server) {
				note(claim)
			}
			return nil, nil
		}
		if kind.Resource == profilesKind {
			for _, p := range all[*v1alpha1.SchedulingProfile](sim.server) {
				note(p)
			}
			return nil, nil
		}
		if kind.Resource == "pluginconfigs" {
			return nil, nil
		}
		for _, pod := range sim.server.sortedPods() {
			if isLivePod(pod) {
				note(pod)
			}
		}
		return nil, nil
	})
	return roll, err
}

// version is a quorum read of a version.
func (sim *simulation) version(ctx context.Context, kind schema.GroupVersionResource) (version string, err error) {
	_, err = sim.call(ctx, "list", "version of "+kind.Resource, func() (*v1.Pod, error) {
		version = itoa(sim.server.version)
		return nil, nil
	})
	return version, err
}

// inHandover says whether the leader has not placed a pod yet.
func (sim *simulation) inHandover() bool {
	if sim.hasReplicas() {
		return sim.newestEpoch > sim.decidedEpoch
	}
	return sim.elected && sim.placementCount == sim.placedBefore
}

// faultChance is the probability that a request fails. During a handover no patch fails: a pod
// that cannot be fenced at all is waited out, which is not simulated here.
func (sim *simulation) faultChance(verb string) float64 {
	if verb == "patch" && sim.inHandover() { // also one of a leader that has a successor
		return 0
	}
	return sim.settings.requestFaults[verb]
}

// bindCommit returns what the Binding of a process does when it arrives, and the kind of that
// write.
func (sim *simulation) bindCommit(process int, b *v1.Binding) (commit func() (*v1.Pod, error), kind string) {
	kind = freshPodWrite
	if pod := sim.server.pods[keyOf(b)]; pod != nil && pod.ResourceVersion == b.ResourceVersion && binding.HasPodScheduledFalse(pod) {
		kind = refusedPodWrite
	}
	epoch := sim.leaderEpoch()
	return func() (*v1.Pod, error) {
		sim.bindingEpoch = epoch
		err := sim.server.bind(b)
		if sim.hasReplicas() {
			sim.noteBinding(epoch, err)
		}
		if sim.elected && process < sim.process && sim.placementCount > sim.placedBefore {
			sim.checkLateBinding(b, kind, err)
		}
		return nil, err
	}, kind
}

// checkLateBinding checks that a Binding of an earlier leader fails where it arrives after the
// current leader has placed a pod.
func (sim *simulation) checkLateBinding(b *v1.Binding, kind string, err error) {
	if err != nil {
		sim.count("a late Binding of an earlier leader is refused:" + kind)
		return
	}
	sim.failf("%s was bound by an earlier leader, after its successor had placed a pod", describe(sim.server.pods[keyOf(b)]))
}

// configMaps is the journal's client in one process.
type configMaps struct {
	corev1.ConfigMapInterface
	sim     *simulation
	process int
}

var configMapResource = schema.GroupResource{Resource: "configmaps"}

func (c *configMaps) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.ConfigMap, error) {
	var found *v1.ConfigMap
	_, err := c.sim.call(ctx, "list", "get the journal", func() (*v1.Pod, error) {
		if found = c.sim.journal; found == nil {
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
	sim := c.sim
	var written *v1.ConfigMap
	what := fmt.Sprintf("write epoch %s (version %q), pods %q%s", object.Data["epoch"], object.ResourceVersion, object.Data["pods"], journalWrite)
	_, err := sim.call(ctx, "journal", what, func() (*v1.Pod, error) {
		version := ""
		if sim.journal != nil {
			version = sim.journal.ResourceVersion
		}
		if version != object.ResourceVersion {
			if c.process < sim.process {
				sim.count("a late journal of an earlier leader is refused")
			}
			return nil, apierrors.NewConflict(configMapResource, object.Name, errors.New("the resource version is another"))
		}
		sim.server.version++
		written = object.DeepCopy()
		written.ResourceVersion = itoa(sim.server.version)
		sim.journal = written
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// LastSyncResourceVersion is the resource version up to which the watch has read.
func (i *informer) LastSyncResourceVersion() string { return i.resourceVersion }

// GetStore returns a store that knows its version.
func (i *informer) GetStore() toolscache.Store { return versionedStore{version: i.resourceVersion} }

// versionedStore is complete up to a version.
type versionedStore struct {
	toolscache.Store
	version string
}

func (s versionedStore) LastStoreSyncResourceVersion() string { return s.version }

// nodeLister reads the store, which is ahead of the handlers.
type nodeLister struct {
	corelisters.NodeLister
	informer *informer
}

func (l nodeLister) Get(name string) (*v1.Node, error) {
	if o, ok := l.informer.store[name]; ok {
		return o.(*v1.Node), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
}

func (l nodeLister) List(labels.Selector) ([]*v1.Node, error) {
	var nodes []*v1.Node
	for _, o := range l.informer.store {
		nodes = append(nodes, o.(*v1.Node))
	}
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, nil
}
