package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// BenchmarkRefusal measures a failed attempt with 5,000 nodes, from the snapshot to the
// explanation: without an explanation queue, with the same reasons as before, with other
// reasons, and after another pod of the same class was explained.
func BenchmarkRefusal(b *testing.B) {
	for _, how := range []string{"unexplained", "the same", "another", "another of its class"} {
		b.Run(how, func(b *testing.B) {
			var explanations *explain.Queue
			if how != "unexplained" {
				explanations = explain.NewQueue(time.Now, decision.NewLedger(time.Now))
			}
			s := tooSmallFor(b, explanations, 5000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if how == "another" {
					s.cache.SetNode(benchNode(0))
				}
				if strings.HasPrefix(how, "another") {
					s.options.Explanations = explain.NewQueue(time.Now, decision.NewLedger(time.Now))
				}
				failOnce(b, s, fmt.Sprint("shop/p", i%100))
			}
		})
	}
}

// failOnce tries a pod that fits nowhere, and puts its explanation.
func failOnce(b *testing.B, s *Scheduler, name string) {
	pod := podWithCPUs(name, 9, 0).Obj()
	if err := s.options.Informers.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
		b.Fatal(err)
	}
	s.queue.Add(b.Context(), pod)
	t := &schedulingCycle{Attempt: s.queue.TryPop(), state: framework.NewCycleState(), nominatingInfo: clearNominatedNode}
	t.generation, _ = s.profiles.Acquire("p")
	err := s.selectNode(b.Context(), t, s.cache.UpdateSnapshot(), &s.cycle)
	if d := s.newDecision(t, err); d.Result != v1alpha1.ResultUnschedulable {
		b.Fatal(err)
	}
	s.explainFailure(t, err)
	t.generation.Release()
	t.Done()
}

// tooSmallFor returns a Scheduler with that many nodes that are too small, most of them full.
func tooSmallFor(b *testing.B, explanations *explain.Queue, nodes int) *Scheduler {
	cluster := fakecluster.New()
	s := New(Options{
		Client: cluster, Informers: informers.NewSharedInformerFactory(cluster, 0),
		RecorderFor: func(string) events.EventRecorderLogger { return &eventRecorder{} }, Registry: plugins.InTree(),
		Unsupported: func(*v1.Pod) (string, string) { return "", "" },
		Ledger:      decision.NewLedger(time.Now), Explanations: explanations, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	blueprint, rejection := compile.Profile(compile.Input{
		Profile:  &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
		Registry: plugins.InTree(), Version: "test",
	})
	if rejection != nil {
		b.Fatal(rejection.Message())
	}
	if err := s.profiles.Apply(b.Context(), blueprint); err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		if err := s.options.Informers.Core().V1().Nodes().Informer().GetIndexer().Add(benchNode(i)); err != nil {
			b.Fatal(err)
		}
		s.cache.SetNode(benchNode(i))
		s.cache.SetPod(podWithCPUs(fmt.Sprint("bank/p", i), i%3, 1).On(fmt.Sprint("n", i)).Obj())
	}
	return s
}

func benchNode(i int) *v1.Node {
	n := fixture.Node(fmt.Sprint("n", i)).Capacity("cpu", "4", "pods", "20")
	if i%25 == 0 {
		n.Taint("key", "", v1.TaintEffectNoSchedule)
	}
	return n.Obj()
}
