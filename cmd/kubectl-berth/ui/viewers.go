package ui

import "slices"

// maxStreams is how many streams are open at a time. Browsers open six connections to a host for
// all their pages, and a stream keeps one: the sixth is for everything else, also to say that there
// are too many pages.
const maxStreams = 5

// maxObjects is how many objects a message has at most.
const maxObjects = 2000

// viewer is an open stream, with what it has not sent yet. Only keys are remembered: however
// slow the client is, several changes of an object are one, and none is lost.
type viewer struct {
	// dirty are the keys of the records that changed, by kind. live.mu guards it, and notes.
	dirty map[string]map[string]bool
	// notes: the notes changed.
	notes bool
	// changed has an element if there may be something to send.
	changed chan struct{}
}

// signal wakes the stream of a viewer.
func (v *viewer) signal() {
	select {
	case v.changed <- struct{}{}:
	default: // it is awake already
	}
}

// changes is a message with the records that changed, and the keys of those that are gone.
type changes struct {
	Type      string              `json:"type"`
	Profiles  []any               `json:"profiles,omitempty"`
	Nodes     []any               `json:"nodes,omitempty"`
	Pods      []any               `json:"pods,omitempty"`
	Decisions []any               `json:"decisions,omitempty"`
	Gone      map[string][]string `json:"gone,omitempty"`
}

// add adds a record.
func (c *changes) add(kind string, record any) {
	switch kind {
	case profilesKind:
		c.Profiles = append(c.Profiles, record)
	case nodesKind:
		c.Nodes = append(c.Nodes, record)
	case decisionsKind:
		c.Decisions = append(c.Decisions, record)
	case podsKind:
		c.Pods = append(c.Pods, record)
	}
}

// remove adds the key of a record that is gone.
func (c *changes) remove(kind, key string) {
	if c.Gone == nil {
		c.Gone = map[string][]string{}
	}
	c.Gone[kind] = append(c.Gone[kind], key)
}

// join returns a new viewer, to which all records are new; nil if there are too many.
func (l *live) join() *viewer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.viewers) >= maxStreams {
		return nil
	}
	v := &viewer{dirty: map[string]map[string]bool{}, changed: make(chan struct{}, 1)}
	for _, kind := range sentKinds {
		v.dirty[kind] = map[string]bool{}
		for key := range l.records[kind] {
			v.dirty[kind][key] = true
		}
	}
	l.viewers[v] = true
	return v
}

// leave removes a viewer.
func (l *live) leave(v *viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.viewers, v)
}

// mark records for all viewers that a record changed. The caller holds mu.
func (l *live) mark(kind, key string) {
	for v := range l.viewers {
		v.dirty[kind][key] = true
		v.signal()
	}
}

// take returns the changed records that a viewer has not sent, at most maxObjects of them;
// nil for none. It signals the viewer if there are more.
func (l *live) take(v *viewer, messageType string) *changes {
	l.mu.Lock()
	defer l.mu.Unlock()
	message, left := &changes{Type: messageType}, maxObjects
	for _, kind := range sentKinds {
		keys := firstKeys(v.dirty[kind], left)
		left -= len(keys)
		for _, key := range keys {
			delete(v.dirty[kind], key)
			if record := l.view(kind, key); record != nil {
				message.add(kind, record)
			} else {
				message.remove(kind, key)
			}
		}
		if len(v.dirty[kind]) > 0 {
			v.signal()
			break
		}
	}
	if left == maxObjects {
		return nil
	}
	return message
}

// firstKeys returns some of the keys, at most limit, sorted.
func firstKeys(keys map[string]bool, limit int) []string {
	some := make([]string, 0, min(len(keys), limit))
	for key := range keys {
		if len(some) == limit {
			break
		}
		some = append(some, key)
	}
	slices.Sort(some)
	return some
}

// takeNotes returns all notes, and whether they changed since a viewer took them last.
func (l *live) takeNotes(v *viewer) (notes []string, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, v.notes = v.notes, false
	return l.allNotes(), changed
}
