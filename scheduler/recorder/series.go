package recorder

import (
	"container/list"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
)

const (
	// finishTime ends a series: an Event that repeats after it is a new one. The times are
	// those of client-go's event recorder.
	finishTime = 6 * time.Minute
	// refreshTime is how often the count of a long series is written.
	refreshTime   = 30 * time.Minute
	sweepInterval = time.Minute
	// maxSeries bounds the number of Events whose repetition is recognised.
	maxSeries = 16_384
)

// identity is what two Events must share to count as one.
type identity struct {
	eventType, reason, action, controller string
	regarding, related                    v1.ObjectReference
}

// eventEntry is an Event: how often it occurred, and how much of that is written.
type eventEntry struct {
	identity
	note string
	// name is the Event's name from its first write on: one for a long pod name is random.
	name        string
	first, last time.Time
	count       int32
	// writtenCount is the count that the API server has, since writtenAt.
	writtenCount int32
	writtenAt    time.Time
	// ended says that the series has ended: the rest of the count is written at once.
	ended bool
	// queued says that it waits, since queuedAt, or is being written.
	queued   bool
	queuedAt time.Time
	// repeatAt is when it is written again that was refused.
	repeatAt time.Time
	tries    int
}

// due reports whether a write is due: a new Event, the second occurrence, the end of a
// series, or refreshTime after the write before.
func (e *eventEntry) due() bool {
	return e.writtenCount == 0 || e.writtenCount < e.count && (e.writtenCount == 1 || e.ended || e.last.Sub(e.writtenAt) >= refreshTime)
}

// event returns the API object, under the same name each time. The caller holds the lock.
func (e *eventEntry) event(host string) *eventsv1.Event {
	namespace := e.regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	if e.name == "" {
		e.name = util.GenerateEventName(e.regarding.Name, e.first.UnixNano())
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: e.name, Namespace: namespace},
		EventTime:           metav1.MicroTime{Time: e.first},
		ReportingController: e.controller,
		ReportingInstance:   e.controller + "-" + host,
		Type:                e.eventType, Reason: e.reason, Action: e.action,
		Regarding: e.regarding, Note: e.note,
	}
	if e.related != (v1.ObjectReference{}) {
		event.Related = &e.related
	}
	if e.count > 1 {
		event.Series = &eventsv1.EventSeries{Count: e.count, LastObservedTime: metav1.MicroTime{Time: e.last}}
	}
	return event
}

// seriesCache holds the Events of the last minutes, least recently observed first.
type seriesCache struct {
	byIdentity map[identity]*list.Element
	order      *list.List
}

func newSeriesCache() seriesCache { return seriesCache{map[identity]*list.Element{}, list.New()} }

// observe counts another occurrence of an Event; nil when it is a new one.
func (s *seriesCache) observe(id identity, now time.Time) *eventEntry {
	element, ok := s.byIdentity[id]
	if !ok {
		return nil
	}
	e := element.Value.(*eventEntry)
	if now.Sub(e.last) >= finishTime {
		return nil
	}
	e.count++
	e.last = now
	s.order.MoveToBack(element)
	return e
}

// add adds a new Event. It returns an entry whose series ends by that, because it was
// evicted or is older than finishTime; nil when there is none.
func (s *seriesCache) add(e *eventEntry) *eventEntry {
	var ended *eventEntry
	if element, ok := s.byIdentity[e.identity]; ok {
		ended = s.end(element)
	} else if s.order.Len() >= maxSeries {
		ended = s.end(s.order.Front())
	}
	s.byIdentity[e.identity] = s.order.PushBack(e)
	return ended
}

// sweep ends the series that are older than finishTime, and returns the entries that are
// due.
func (s *seriesCache) sweep(now time.Time) []*eventEntry {
	var due []*eventEntry
	for element := s.order.Front(); element != nil; {
		next := element.Next()
		e := element.Value.(*eventEntry)
		if now.Sub(e.last) >= finishTime {
			s.end(element)
		}
		if e.due() {
			due = append(due, e)
		}
		element = next
	}
	return due
}

func (s *seriesCache) end(element *list.Element) *eventEntry {
	e := s.order.Remove(element).(*eventEntry)
	delete(s.byIdentity, e.identity)
	e.ended = true
	return e
}
