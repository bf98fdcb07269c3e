package swap

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/api/v1alpha1"
)

const (
	// streamInterval is the time between two pods of the stream, and streamLength the most
	// pods.
	streamInterval, streamLength = 150 * time.Millisecond, 60
)

// stream is the other pods of a cell's profile. They request nothing, and all plugins
// accept them.
type stream struct {
	cell *cell
	mu   sync.Mutex
	pods []streamPod
	// end ends the stream, and waits until its last pod is created.
	end func()
	err error
}

// streamPod is a pod of the stream, and the time before its creation.
type streamPod struct {
	*v1.Pod
	createdAfter time.Time
}

// startStream starts a stream, and waits until its first pod is bound.
func startStream(c *cell) *stream {
	s := &stream{cell: c}
	stop, ended := make(chan struct{}), make(chan struct{})
	s.end = sync.OnceFunc(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		defer func() {
			if r := recover(); r != nil {
				s.err = fmt.Errorf("the stream ended: %v", r)
			}
		}()
		ticker := time.NewTicker(streamInterval)
		defer ticker.Stop()
		for i := range streamLength {
			s.create(fmt.Sprint("other-", i))
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	c.eventually(func(g Gomega) {
		all := s.snapshot()
		g.Expect(all).NotTo(BeEmpty())
		g.Expect(podHistory.of(all[0].UID).bindings).To(HaveLen(1))
	}, "the first pod of the stream is bound")
	return s
}

func (s *stream) create(name string) {
	asked := time.Now()
	pod := s.cell.newPod(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, streamPod{pod, asked})
}

func (s *stream) snapshot() []streamPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[:len(s.pods):len(s.pods)]
}

// podRecorder records the bindings of every pod.
type podRecorder struct {
	mu   sync.Mutex
	pods map[types.UID]podRecord
}

// podRecord has the times at which a pod got a node, and its last version.
type podRecord struct {
	bindings []time.Time
	last     *v1.Pod
}

func (w *podRecorder) register(watch informers.SharedInformerFactory) {
	w.pods = map[types.UID]podRecord{}
	_, err := watch.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.note(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { w.note(o.(*v1.Pod)) },
	})
	Expect(err).NotTo(HaveOccurred())
}

func (w *podRecorder) note(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.pods[pod.UID]
	if pod.Spec.NodeName != "" && (b.last == nil || b.last.Spec.NodeName != pod.Spec.NodeName) {
		b.bindings = append(b.bindings, time.Now())
	}
	b.last = pod
	w.pods[pod.UID] = b
}

func (w *podRecorder) of(uid types.UID) podRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

// boundRecord is the content of a bound pod's annotation.
type boundRecord struct {
	generationID
	Profile  string `json:"profile"`
	Node     string `json:"node"`
	Attempts int    `json:"attempts"`
}

// readRecord reads the annotation. It must have the pod's node and profile.
func (c *cell) readRecord(pod *v1.Pod) boundRecord {
	var record boundRecord
	text := pod.Annotations[v1alpha1.AnnotationDecision]
	c.Expect(json.Unmarshal([]byte(text), &record)).To(Succeed(), "the annotation of %s: %q", pod.Name, text)
	c.Expect([]string{record.Profile, record.Node}).To(Equal([]string{c.name, pod.Spec.NodeName}), pod.Name)
	return record
}

// expectStream expects all pods of the stream to be bound once, in any attempt, by
// generations that may have run while they were pending.
func (c *cell) expectStream() {
	c.stream.end()
	c.Expect(c.stream.err).NotTo(HaveOccurred())
	sent := map[string]int{}
	c.eventually(func(g Gomega) {
		for _, pod := range c.stream.snapshot() {
			g.Expect(podHistory.of(pod.UID).bindings).NotTo(BeEmpty(), pod.Name+" is bound")
		}
	}, "the stream is bound")
	for _, b := range bindings.Bindings() {
		if b.Namespace == c.name {
			sent[b.Pod]++
		}
	}
	for _, pod := range c.stream.snapshot() {
		history := podHistory.of(pod.UID)
		c.Expect(history.bindings).To(HaveLen(1), pod.Name+": number of nodes it got")
		c.Expect(sent[pod.Name]).To(Equal(1), pod.Name+": Bindings")
		record := c.readRecord(history.last)
		c.Expect(c.ranBetween(record.generationID, pod.createdAfter, history.bindings[0])).To(BeTrue(),
			"%s was decided by %v between %v and %v; these ran: %v", pod.Name, record.generationID, pod.createdAfter, history.bindings[0], c.history)
		c.streamHashes.Insert(record.Hash)
	}
}

// ranBetween reports whether a generation may have run between two times.
func (c *cell) ranBetween(s generationID, from, until time.Time) bool {
	for _, r := range c.history {
		if r.generationID == s && !r.from.After(until) && (r.until.IsZero() || !r.until.Before(from)) {
			return true
		}
	}
	return false
}
