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
	// quiet ends a series: what comes later is news.
	finishTime = 6 * time.Minute
	// refreshEvery is how often the count of a long series is written.
	refreshTime   = 30 * time.Minute
	sweepInterval = time.Minute
	// remembered bounds the Events whose repetition is noticed.
	maxSeries = 16_384
)

// identity is what makes two Events the same one, seen again.
type identity struct {
	eventType, reason, action, controller string
	regarding, related                    v1.ObjectReference
}

// occurrence is an Event: how often it was seen, and how much of that has been
// written.
type eventEntry struct {
	identity
	note        string
	first, last time.Time
	count       int32
	// told is the count that the API server knows; toldAt is since when.
	writtenCount int32
	writtenAt    time.Time
	// over says that the series ended: what is untold is told now.
	ended  bool
	queued bool
	tries  int
}

// due says whether there is something to write.
func (o *eventEntry) due() bool {
	return o.writtenCount == 0 || o.writtenCount < o.count && (o.writtenCount == 1 || o.ended || o.last.Sub(o.writtenAt) >= refreshTime)
}

// event is the occurrence as the API server takes it.
func (o *eventEntry) event(host string) *eventsv1.Event {
	namespace := o.regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(o.regarding.Name, o.first.UnixNano()), Namespace: namespace,
		},
		EventTime:           metav1.MicroTime{Time: o.first},
		ReportingController: o.controller,
		ReportingInstance:   o.controller + "-" + host,
		Type:                o.eventType, Reason: o.reason, Action: o.action,
		Regarding: o.regarding, Note: o.note,
	}
	if o.related != (v1.ObjectReference{}) {
		e.Related = &o.related
	}
	if o.count > 1 {
		e.Series = &eventsv1.EventSeries{Count: o.count, LastObservedTime: metav1.MicroTime{Time: o.last}}
	}
	return e
}

// series remembers the Events of the last minutes, the longest quiet first.
type seriesCache struct {
	byIdentity map[identity]*list.Element
	order      *list.List
}

func newSeriesCache() seriesCache { return seriesCache{map[identity]*list.Element{}, list.New()} }

// again counts another sight of a known Event; nil when it is news.
func (s *seriesCache) observe(about identity, now time.Time) *eventEntry {
	element, ok := s.byIdentity[about]
	if !ok {
		return nil
	}
	o := element.Value.(*eventEntry)
	if now.Sub(o.last) >= finishTime {
		return nil
	}
	o.count++
	o.last = now
	s.order.MoveToBack(element)
	return o
}

// add remembers an Event. It returns one whose series ends by that, since it
// had to make room or was quiet for too long; nil when there is none.
func (s *seriesCache) add(o *eventEntry) *eventEntry {
	var gone *eventEntry
	if element, ok := s.byIdentity[o.identity]; ok {
		gone = s.end(element)
	} else if s.order.Len() >= maxSeries {
		gone = s.end(s.order.Front())
	}
	s.byIdentity[o.identity] = s.order.PushBack(o)
	return gone
}

// sweep ends the series that went quiet, and returns all that may be due.
func (s *seriesCache) sweep(now time.Time) []*eventEntry {
	var due []*eventEntry
	for element := s.order.Front(); element != nil; {
		next := element.Next()
		o := element.Value.(*eventEntry)
		if now.Sub(o.last) >= finishTime {
			s.end(element)
		}
		if o.due() {
			due = append(due, o)
		}
		element = next
	}
	return due
}

func (s *seriesCache) end(element *list.Element) *eventEntry {
	o := s.order.Remove(element).(*eventEntry)
	delete(s.byIdentity, o.identity)
	o.ended = true
	return o
}
