package ui

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rediscoverInterval is the time between two resets of the mapper at least.
const rediscoverInterval = 15 * time.Second

// live has what the page shows of the cluster, kept up to date by watches.
type live struct {
	client client.WithWatch
	// namespace is where kinds are listed that may not be listed in all namespaces.
	namespace string
	// synced is closed when each kind is listed, or could not be.
	synced chan struct{}

	mu sync.Mutex // guards the fields below
	// records are the records by kind and key. A record does not change: it is replaced.
	records map[string]map[string]any
	// devices is the number of devices by node.
	devices map[string]int
	// retainted are the nodes whose taints have changed since markWaiting.
	retainted map[string]bool
	notes     map[string]kindNotes
	answered  map[string]bool
	viewers   map[*viewer]bool
	// rediscovered is when the mapper was reset last.
	rediscovered time.Time
}

// kindNotes say what the page lacks of a kind, empty for nothing.
type kindNotes struct{ list, watch string }

// newLive returns a live without records, which reads nothing before it is started.
func newLive(c client.WithWatch, namespace string) *live {
	l := &live{
		client: c, namespace: namespace, synced: make(chan struct{}), records: map[string]map[string]any{}, devices: map[string]int{}, retainted: map[string]bool{},
		notes: map[string]kindNotes{}, answered: map[string]bool{}, viewers: map[*viewer]bool{},
	}
	for _, k := range kinds {
		l.records[k.name] = map[string]any{}
	}
	return l
}

// start watches all kinds until ctx ends. The caller waits for the result afterwards.
func (l *live) start(ctx context.Context) *sync.WaitGroup {
	watches := &sync.WaitGroup{}
	for _, k := range kinds {
		s := &source{kind: k, live: l}
		watches.Go(func() { s.run(ctx) })
	}
	return watches
}

// rediscover makes the next request ask the API server which kinds it serves: a CRD may have been
// created since. Several kinds may not be served, for as long as the page is open, so that this
// does nothing within rediscoverInterval after the last time.
func (l *live) rediscover() {
	l.mu.Lock()
	now := time.Now()
	due := now.Sub(l.rediscovered) >= rediscoverInterval
	if due {
		l.rediscovered = now
	}
	l.mu.Unlock()
	if due {
		meta.MaybeResetRESTMapper(l.client.RESTMapper()) // without mu: it waits for a discovery that runs
	}
}

// set sets the record of a key, nil to remove it.
func (l *live) set(k *kind, key string, record any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(k.name, key, record)
	l.markWaiting()
}

// replace replaces all records of a kind.
func (l *live) replace(k *kind, records map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.records[k.name] {
		if records[key] == nil {
			l.put(k.name, key, nil)
		}
	}
	for key, record := range records {
		l.put(k.name, key, record)
	}
	l.markWaiting()
}

// put sets or removes a record, and marks it for all viewers if it changed. The caller holds
// mu.
func (l *live) put(kind, key string, record any) {
	all := l.records[kind]
	before := all[key]
	if reflect.DeepEqual(before, record) {
		return
	}
	if record == nil {
		delete(all, key)
	} else {
		all[key] = record
	}
	if kind == slicesKind {
		l.countDevices(before, -1)
		l.countDevices(record, 1)
		return
	}
	if kind == nodesKind && !slices.Equal(taintsIn(before), taintsIn(record)) {
		l.retainted[key] = true
	}
	l.mark(kind, key)
}

// markWaiting marks the pending pods for which view names the taints of nodes that were changed.
// The caller holds mu.
func (l *live) markWaiting() {
	if len(l.retainted) == 0 {
		return
	}
	for key, record := range l.records[decisionsKind] {
		if waiting, is := record.(Waiting); is && waiting.namesTaintsOf(l.retainted) {
			l.mark(decisionsKind, key)
		}
	}
	clear(l.retainted)
}

// countDevices adds or subtracts the devices of a slice, nil for none. The caller holds mu.
func (l *live) countDevices(record any, sign int) {
	slice, is := record.(nodeDevices)
	if !is {
		return
	}
	l.devices[slice.node] += sign * slice.devices
	if l.devices[slice.node] == 0 {
		delete(l.devices, slice.node)
	}
	if l.records[nodesKind][slice.node] != nil {
		l.mark(nodesKind, slice.node)
	}
}

// view returns a record as it is sent, nil if there is none. The caller holds mu.
func (l *live) view(kind, key string) any {
	switch record := l.records[kind][key].(type) {
	case Node:
		record.Devices = l.devices[record.Name]
		return record
	case Waiting:
		record.Fits = fitsOf(record.closest, l.taintsOf)
		return record
	default:
		return record
	}
}

// taintsOf returns the taints of a node, nil for one that is not known. The caller holds mu.
func (l *live) taintsOf(node string) []string { return taintsIn(l.records[nodesKind][node]) }

// taintsIn returns the taints of a node's record, nil for none.
func taintsIn(record any) []string {
	node, _ := record.(Node)
	return node.Taints
}

// setListNote sets what is said about the list of a kind.
func (l *live) setListNote(k *kind, note string) {
	l.setNotes(k, func(n *kindNotes) { n.list = note })
}

// setWatchNote sets what is said about the watch of a kind.
func (l *live) setWatchNote(k *kind, note string) {
	l.setNotes(k, func(n *kindNotes) { n.watch = note })
}

func (l *live) setNotes(k *kind, change func(*kindNotes)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.notes[k.name]
	after := before
	if change(&after); after == before {
		return
	}
	l.notes[k.name] = after
	for v := range l.viewers {
		v.notes = true
		v.signal()
	}
}

// allNotes returns the notes of all kinds. The caller holds mu.
func (l *live) allNotes() []string {
	notes := []string{}
	for _, k := range kinds {
		of := l.notes[k.name]
		for _, note := range []string{of.list, of.watch} {
			if note != "" && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// setAnswered records that a kind is listed, or could not be.
func (l *live) setAnswered(k *kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered[k.name] {
		return
	}
	l.answered[k.name] = true
	if len(l.answered) == len(kinds) {
		close(l.synced)
	}
}
