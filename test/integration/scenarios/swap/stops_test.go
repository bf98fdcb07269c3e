package swap

import (
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/test/support/faultproxy"
)

// stopper stops the loop between two of its steps: when it has popped a pod and
// not yet asked who serves it. Nothing of the scheduler's is called there but
// its log, which is told whom it will speak about.
type stopper struct {
	// turn is held by the cell in which the loop stands still.
	turn sync.Mutex

	mu    sync.Mutex
	stops map[string]*stop
}

// stop is one of those; the pod was popped when reached is closed, and the loop
// goes on when free is.
type stop struct{ reached, free chan struct{} }

// at has the loop stop when it pops a pod, "namespace/name".
func (s *stopper) at(pod string) *stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stops == nil {
		s.stops = map[string]*stop{}
	}
	s.stops[pod] = &stop{make(chan struct{}), make(chan struct{})}
	return s.stops[pod]
}

func (s *stopper) pass(pod string) {
	s.mu.Lock()
	here := s.stops[pod]
	delete(s.stops, pod)
	s.mu.Unlock()
	if here != nil {
		close(here.reached)
		<-here.free
	}
}

// sink is a log that stops who speaks about a pod.
type sink struct {
	logr.LogSink
	stops *stopper
}

// WithValues is called with what all that follows is about.
func (s *sink) WithValues(pairs ...any) logr.LogSink {
	if len(pairs) > 1 && pairs[0] == "pod" {
		if pod, ok := pairs[1].(klog.ObjectRef); ok {
			s.stops.pass(pod.Namespace + "/" + pod.Name)
		}
	}
	return &sink{s.LogSink.WithValues(pairs...), s.stops}
}

func (s *sink) WithName(name string) logr.LogSink { return &sink{s.LogSink.WithName(name), s.stops} }

// holdUp holds up the Bindings of subjects whose cells say so.
func holdUp(b faultproxy.Binding) *faultproxy.Fault {
	for _, c := range theCells {
		if c.place.Point == "Bind" && b.Namespace == c.name && b.Pod == subject {
			return &faultproxy.Fault{Hold: c.free, Commits: true}
		}
	}
	return nil
}
