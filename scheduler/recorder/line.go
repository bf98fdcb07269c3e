package recorder

// line is a queue of Events, oldest first.
type eventQueue struct {
	items []*eventEntry
	head  int
}

func (l *eventQueue) len() int { return len(l.items) - l.head }

func (l *eventQueue) push(o *eventEntry) { l.items = append(l.items, o) }

// pop returns the oldest; nil when there is none.
func (l *eventQueue) pop() *eventEntry {
	if l.len() == 0 {
		return nil
	}
	o := l.items[l.head]
	l.items[l.head] = nil
	l.head++
	if l.head > len(l.items)/2 {
		// What was taken is given back, at a constant price per Event.
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	return o
}
