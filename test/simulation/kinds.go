package simulation

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coregroup "k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// Histories of volumes and of devices have further kinds of objects. Plugins read these through
// client-go's listers, so that their informers, and those of pods and nodes, have a store of
// client-go. A watch of such a kind passes over the writes of other kinds, and its informer may
// have several handlers, each called by a task of its own.

// furtherKind is a kind of objects beside pods, nodes and PodGroups.
type furtherKind struct {
	// plural is its name in a path of the API.
	plural string
	empty  runtime.Object
}

func (k furtherKind) selects(o object) bool { return reflect.TypeOf(o) == reflect.TypeOf(k.empty) }

// objects are the objects of further kinds, by Go type and key.
type objects map[reflect.Type]map[string]object

// put stores an object of a further kind and takes ownership of it.
func (s *server) put(o object) {
	s.stamp(o)
	kind := reflect.TypeOf(o)
	if s.further[kind] == nil {
		s.further[kind] = map[string]object{}
	}
	s.append(change{old: s.further[kind][keyOf(o)], new: o})
	s.further[kind][keyOf(o)] = o
}

// drop deletes an object of a further kind.
func (s *server) drop(o object) {
	if old := s.further[reflect.TypeOf(o)][keyOf(o)]; old != nil {
		delete(s.further[reflect.TypeOf(o)], keyOf(o))
		s.version++
		s.append(change{old: old})
	}
}

// find returns an object of a further kind; nil for none.
func find[T object](s *server, key string) (found T) {
	if o, ok := s.further[reflect.TypeFor[T]()][key]; ok {
		return o.(T)
	}
	return found
}

// all returns the objects of a further kind by key.
func all[T object](s *server) []T {
	of := s.further[reflect.TypeFor[T]()]
	found := make([]T, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		found = append(found, of[key].(T))
	}
	return found
}

// edit stores a changed copy of an object of a further kind.
func edit[T object](s *server, o T, change func(T)) T {
	edited := o.DeepCopyObject().(T)
	change(edited)
	s.put(edited)
	return edited
}

// addFurtherInformers adds informers of further kinds to a process, and a store of client-go to
// those of pods and nodes.
func (sim *simulation) addFurtherInformers(f *factory, kinds []furtherKind) {
	f.further = map[reflect.Type]*informer{reflect.TypeFor[*v1.Pod](): f.pods, reflect.TypeFor[*v1.Node](): f.nodes}
	for _, kind := range kinds {
		i := sim.newInformer(kind.plural, kind.selects)
		i.passesOver = true
		f.further[reflect.TypeOf(kind.empty)] = i
		sim.informers = append(sim.informers, i)
	}
	for _, i := range f.further {
		i.indexer, i.listed = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{}), make(chan struct{})
	}
}

// informerOf returns the informer of a further kind in this process; nil for none.
func (sim *simulation) informerOf(empty runtime.Object) *informer {
	for _, i := range sim.informers {
		if o, is := empty.(object); is && i.passesOver && i.selects(o) {
			return i
		}
	}
	return nil
}

// stored returns an object of a further kind as the informer of this process has it in its store,
// which may be ahead of the handlers; nil for none.
func stored[T object](sim *simulation, key string) (found T) {
	if i := sim.informerOf(found); i != nil && i.store[key] != nil {
		return i.store[key].(T)
	}
	return found
}

// handled returns an object of a further kind as the handler of this process received it last; nil
// for none.
func handled[T object](sim *simulation, key string) (found T) {
	if i := sim.informerOf(found); i != nil && i.handled[key] != nil {
		return i.handled[key].(T)
	}
	return found
}

// InformerFor returns an informer of the simulation, or one of client-go's that is never started.
func (f *factory) InformerFor(empty runtime.Object, newInformer internalinterfaces.NewInformerFunc) toolscache.SharedIndexInformer {
	if i := f.further[reflect.TypeOf(empty)]; i != nil {
		return i
	}
	return f.SharedInformerFactory.InformerFor(empty, newInformer)
}

func (v coreVersion) PersistentVolumes() coreinformers.TypedPersistentVolumeInformer {
	return coregroup.New(v.f, v1.NamespaceAll, nil).V1().PersistentVolumes()
}

func (v coreVersion) PersistentVolumeClaims() coreinformers.TypedPersistentVolumeClaimInformer {
	return coregroup.New(v.f, v1.NamespaceAll, nil).V1().PersistentVolumeClaims()
}

// keep replaces an object in the store; nil deletes it.
func (i *informer) keep(key string, o object) {
	old := i.store[key]
	if o == nil {
		delete(i.store, key)
	} else {
		i.store[key] = o
	}
	switch {
	case i.indexer == nil:
	case o != nil:
		i.sim.requireNoError(i.indexer.Update(o))
	case old != nil:
		i.sim.requireNoError(i.indexer.Delete(old))
	}
}

// keepAll replaces all objects in the store.
func (i *informer) keepAll(there map[string]object) {
	i.store = there
	if i.indexer == nil {
		return
	}
	var list []any
	for _, key := range slices.Sorted(maps.Keys(there)) {
		list = append(list, there[key])
	}
	i.sim.requireNoError(i.indexer.Replace(list, itoa(i.sim.server.version)))
	select {
	case <-i.listed:
	default:
		close(i.listed)
	}
}

// passOver reads the writes that do not concern the informer's kind, as a watch of one kind does
// not see them.
func (i *informer) passOver() {
	for i.passesOver && i.logIndex < len(i.sim.server.log) {
		c := i.sim.server.log[i.logIndex]
		if c.old != nil && i.selects(c.old) || c.new != nil && i.selects(c.new) {
			return
		}
		i.logIndex++
	}
}

// notify adds a notification for each handler.
func (i *informer) notify(n notification) {
	i.notifications = append(i.notifications, n)
	for _, l := range i.listeners {
		l.notifications = append(l.notifications, n)
	}
}

// hasPending says whether a handler has not received all that was read.
func (i *informer) hasPending() bool {
	return len(i.notifications) > 0 || slices.ContainsFunc(i.listeners, func(l *listener) bool { return len(l.notifications) > 0 })
}

// listener is a handler of an informer beside the first.
type listener struct {
	toolscache.ResourceEventHandlerRegistration
	informer      *informer
	handler       toolscache.ResourceEventHandler
	notifications []notification
	initialLeft   int
}

// addListener adds one more handler.
func (i *informer) addListener(handler toolscache.ResourceEventHandler) *listener {
	l := &listener{informer: i, handler: handler}
	for _, key := range slices.Sorted(maps.Keys(i.store)) {
		l.notifications = append(l.notifications, notification{new: i.store[key]})
	}
	l.initialLeft = len(l.notifications)
	i.listeners = append(i.listeners, l)
	i.sim.tasks.start(handlerTaskPrefix+i.name+", one more", l.deliver)
	return l
}

// HasSynced waits until the first list was delivered, as registration's.
func (l *listener) HasSynced() bool {
	l.informer.sim.tasks.yield(func() bool { return l.initialLeft == 0 })
	return true
}

// deliver calls the handler for each notification.
func (l *listener) deliver() {
	for {
		l.informer.sim.tasks.yield(func() bool { return len(l.notifications) > 0 })
		n := l.notifications[0]
		l.notifications = l.notifications[1:]
		switch {
		case n.new == nil && n.unknownState:
			l.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: keyOf(n.old), Obj: n.old})
		case n.new == nil:
			l.handler.OnDelete(n.old)
		case n.old == nil:
			l.handler.OnAdd(n.new, l.initialLeft > 0)
		default:
			l.handler.OnUpdate(n.old, n.new)
		}
		l.initialLeft = max(0, l.initialLeft-1)
	}
}

// GetIndexer returns the store of client-go, which informers of further kinds have, and in their
// histories those of pods and nodes.
func (i *informer) GetIndexer() toolscache.Indexer { return i.indexer }

// AddIndexers adds indexes to that store.
func (i *informer) AddIndexers(added toolscache.Indexers) error { return i.indexer.AddIndexers(added) }

// HasSyncedChecker returns a checker that is done after the first list.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return listedChecker{i} }

type listedChecker struct{ informer *informer }

func (c listedChecker) Name() string          { return c.informer.name }
func (c listedChecker) Done() <-chan struct{} { return c.informer.listed }

// callOrCancel is call for a request that its caller may cancel. A request that is canceled before
// it arrives may be committed later. about is the UID of the object that it changes, if that is known.
func (sim *simulation) callOrCancel(ctx context.Context, verb, what string, about types.UID, commit func() error) error {
	r := &request{
		verb: verb, description: what, about: about, commit: func() (*v1.Pod, error) { return nil, commit() },
		replica: sim.replica, epoch: sim.leaderEpoch(), sentAt: sim.clock.now,
	}
	sim.requests = append(sim.requests, r)
	sim.logf("%s: %s", sim.tasks.current.name, what)
	sim.tasks.yield(func() bool { return r.answered || errors.Is(ctx.Err(), context.Canceled) })
	if r.answered {
		return r.err
	}
	sim.count(verb + " canceled")
	sim.logf("client: %q is canceled", what)
	sim.requests = slices.DeleteFunc(sim.requests, func(other *request) bool { return other == r })
	if !r.arrived {
		sim.lateWrites = append(sim.lateWrites, r)
	}
	return ctx.Err()
}

// furtherState is the state of the histories that have further kinds.
type furtherState struct {
	volumes      volumes
	devices      deviceState
	explanations explanations
	controllers  controllerState
	// handle is that of a Generation of this process; nil before the first one.
	handle fwk.Handle
	// controllerWeight is the weight of a controller's step.
	controllerWeight int
}

// furtherKinds are the further kinds of this history.
func (sim *simulation) furtherKinds() (kinds []furtherKind) {
	if sim.hasVolumes() {
		kinds = append(kinds, volumeKinds...)
	}
	if sim.hasDevices() {
		kinds = append(kinds, deviceKinds...)
	}
	return kinds
}

// controllerSteps are the steps that controllers beside Berth could do now.
func (sim *simulation) controllerSteps() (steps []func()) {
	if sim.hasVolumes() {
		steps = append(steps, sim.volumeSteps()...)
	}
	if sim.hasDevices() {
		steps = append(steps, sim.deviceSteps()...)
	}
	if sim.explanations.on {
		steps = append(steps, sim.explanationSteps()...)
	}
	return steps
}

// HasSyncedChecker is that of the informer.
func (r registration) HasSyncedChecker() toolscache.DoneChecker { return r.informer.HasSyncedChecker() }
