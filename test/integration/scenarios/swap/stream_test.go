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
	// beat is how often a pod of the stream comes, and longest how many come at
	// most.
	beat, longest = 150 * time.Millisecond, 60
)

// stream are the other pods of a cell's profile. They ask for nothing, and no
// plugin has anything against them.
type stream struct {
	cell *cell
	mu   sync.Mutex
	pods []drop
	// end ends it, and waits until the last has come.
	end func()
	err error
}

// drop is one of them, and when it was asked for.
type drop struct {
	*v1.Pod
	asked time.Time
}

// streaming lets a stream begin, and waits until it flows.
func streaming(c *cell) *stream {
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
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for i := range longest {
			s.comes(fmt.Sprint("other-", i))
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	c.eventually(func(g Gomega) {
		all := s.all()
		g.Expect(all).NotTo(BeEmpty())
		g.Expect(seen.of(all[0].UID).bindings).To(HaveLen(1))
	}, "the stream flows")
	return s
}

func (s *stream) comes(name string) {
	asked := time.Now()
	pod := s.cell.newPod(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, drop{pod, asked})
}

func (s *stream) all() []drop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[:len(s.pods):len(s.pods)]
}

// witness notes what every pod has been through.
type witness struct {
	mu   sync.Mutex
	pods map[types.UID]biography
}

// biography is when a pod came to a node, each time, and how it was last seen.
type biography struct {
	bindings []time.Time
	last     *v1.Pod
}

func (w *witness) register(watch informers.SharedInformerFactory) {
	w.pods = map[types.UID]biography{}
	_, err := watch.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.note(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { w.note(o.(*v1.Pod)) },
	})
	Expect(err).NotTo(HaveOccurred())
}

func (w *witness) note(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.pods[pod.UID]
	if pod.Spec.NodeName != "" && (b.last == nil || b.last.Spec.NodeName != pod.Spec.NodeName) {
		b.bindings = append(b.bindings, time.Now())
	}
	b.last = pod
	w.pods[pod.UID] = b
}

func (w *witness) of(uid types.UID) biography {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid]
}

// word is what a bound pod's annotation says.
type word struct {
	stamp
	Profile  string `json:"profile"`
	Node     string `json:"node"`
	Attempts int    `json:"attempts"`
}

// wordOf reads it. It must say where the pod is, and by which profile.
func (c *cell) wordOf(pod *v1.Pod) word {
	var said word
	text := pod.Annotations[v1alpha1.AnnotationDecision]
	c.Expect(json.Unmarshal([]byte(text), &said)).To(Succeed(), "the annotation of %s: %q", pod.Name, text)
	c.Expect([]string{said.Profile, said.Node}).To(Equal([]string{c.name, pod.Spec.NodeName}), pod.Name)
	return said
}

// wantStream wants all pods of the stream to be bound, once each, at the first
// attempt or at a later one, by what may have run while they waited.
func (c *cell) wantStream() {
	c.stream.end()
	c.Expect(c.stream.err).NotTo(HaveOccurred())
	sent := map[string]int{}
	c.eventually(func(g Gomega) {
		for _, pod := range c.stream.all() {
			g.Expect(seen.of(pod.UID).bindings).NotTo(BeEmpty(), pod.Name+" is bound")
		}
	}, "the stream is bound")
	for _, b := range bindings.Bindings() {
		if b.Namespace == c.name {
			sent[b.Pod]++
		}
	}
	for _, pod := range c.stream.all() {
		life := seen.of(pod.UID)
		c.Expect(life.bindings).To(HaveLen(1), pod.Name+" came to a node")
		c.Expect(sent[pod.Name]).To(Equal(1), pod.Name+": Bindings")
		said := c.wordOf(life.last)
		c.Expect(c.ranWhile(said.stamp, pod.asked, life.bindings[0])).To(BeTrue(),
			"%s was decided about by %v between %v and %v; these ran: %v", pod.Name, said.stamp, pod.asked, life.bindings[0], c.history)
		c.deciders.Insert(said.Hash)
	}
}

// ranWhile says whether what a stamp names may have run in between.
func (c *cell) ranWhile(s stamp, from, until time.Time) bool {
	for _, r := range c.history {
		if r.stamp == s && !r.from.After(until) && (r.until.IsZero() || !r.until.Before(from)) {
			return true
		}
	}
	return false
}
