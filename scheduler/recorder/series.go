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
	quiet = 6 * time.Minute
	// refreshEvery is how often the count of a long series is written.
	refreshEvery = 30 * time.Minute
	sweepEvery   = time.Minute
	// remembered bounds the Events whose repetition is noticed.
	remembered = 16_384
)

// identity is what makes two Events the same one, seen again.
type identity struct {
	eventType, reason, action, controller string
	regarding, related                    v1.ObjectReference
}

// occurrence is an Event: how often it was seen, and how much of that has been
// written.
type occurrence struct {
	identity
	note        string
	first, last time.Time
	count       int32
	// told is the count that the API server knows; toldAt is since when.
	told   int32
	toldAt time.Time
	// over says that the series ended: what is untold is told now.
	over   bool
	queued bool
	tries  int
}

// due says whether there is something to write.
func (o *occurrence) due() bool {
	return o.told == 0 || o.told < o.count && (o.told == 1 || o.over || o.last.Sub(o.toldAt) >= refreshEvery)
}

// event is the occurrence as the API server takes it.
func (o *occurrence) event(host string) *eventsv1.Event {
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
type series struct {
	byIdentity map[identity]*list.Element
	order      *list.List
}

func newSeries() series { return series{map[identity]*list.Element{}, list.New()} }

// again counts another sight of a known Event; nil when it is news.
func (s *series) again(about identity, now time.Time) *occurrence {
	element, ok := s.byIdentity[about]
	if !ok {
		return nil
	}
	o := element.Value.(*occurrence)
	if now.Sub(o.last) >= quiet {
		return nil
	}
	o.count++
	o.last = now
	s.order.MoveToBack(element)
	return o
}

// add remembers an Event. It returns one whose series ends by that, since it
// had to make room or was quiet for too long; nil when there is none.
func (s *series) add(o *occurrence) *occurrence {
	var gone *occurrence
	if element, ok := s.byIdentity[o.identity]; ok {
		gone = s.end(element)
	} else if s.order.Len() >= remembered {
		gone = s.end(s.order.Front())
	}
	s.byIdentity[o.identity] = s.order.PushBack(o)
	return gone
}

// sweep ends the series that went quiet, and returns all that may be due.
func (s *series) sweep(now time.Time) []*occurrence {
	var due []*occurrence
	for element := s.order.Front(); element != nil; {
		next := element.Next()
		o := element.Value.(*occurrence)
		if now.Sub(o.last) >= quiet {
			s.end(element)
		}
		if o.due() {
			due = append(due, o)
		}
		element = next
	}
	return due
}

func (s *series) end(element *list.Element) *occurrence {
	o := s.order.Remove(element).(*occurrence)
	delete(s.byIdentity, o.identity)
	o.over = true
	return o
}
