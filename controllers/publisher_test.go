package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/profile"
)

// publisherEnv is a running publisher in virtual time, inside a synctest bubble:
// waiting costs nothing and nothing is late.
type publisherEnv struct {
	*publisher
	applier  *fakeApplier
	statuses *fakeStatusClient
	counts   atomic.Value // decision.QueueCounts
	start    time.Time
	stop     func()
}

// QueueCounts implements QueueCounter.
func (p *publisherEnv) QueueCounts(string) decision.QueueCounts {
	counts, _ := p.counts.Load().(decision.QueueCounts)
	return counts
}

func startPublisher(t *testing.T, profiles ...*v1alpha1.SchedulingProfile) *publisherEnv {
	var live fakeReader
	for _, p := range profiles {
		live = append(live, p)
	}
	return startPublisherWithLive(t, live, profiles...)
}

// startPublisherWithLive is startPublisher with the reader of the API server.
func startPublisherWithLive(t *testing.T, live client.Reader, profiles ...*v1alpha1.SchedulingProfile) *publisherEnv {
	return startPublisherOn(t, &fakeStatusClient{}, live, profiles...)
}

// startPublisherOn is startPublisherWithLive with the client that writes statuses.
func startPublisherOn(t *testing.T, statuses *fakeStatusClient, live client.Reader, profiles ...*v1alpha1.SchedulingProfile) *publisherEnv {
	var cluster fakeReader
	for _, p := range profiles {
		cluster = append(cluster, p)
	}
	p := &publisherEnv{
		applier:  &fakeApplier{running: map[string]profile.Running{}, now: time.Now},
		statuses: statuses, start: time.Now(),
	}
	p.publisher = NewPublisher(Cluster{Cache: &cluster, Live: live, Status: p.statuses}, Options{
		Applier: p.applier, Ledger: decision.NewLedger(time.Now), Queue: p, Clock: clock.RealClock{},
	}).(*publisher)
	for _, s := range profiles {
		p.ledger.Open(s.Name, s.UID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Start(ctx) }()
	synctest.Wait() // the first write is made
	p.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return p
}

func (p *publisherEnv) bind(name, pod string) {
	p.ledger.Record(decision.Decision{
		Time: time.Now(), Namespace: "shop", Pod: pod, Result: v1alpha1.ResultBound, Node: "n1",
		Profile: name, Generation: 7, Hash: "9f3c1a2b4d",
	})
}

// writes returns "seconds since the start, profile, bound pods" of each write.
func (p *publisherEnv) writes() []string {
	var out []string
	for _, a := range p.statuses.all() {
		bound := a.status["totals"].(map[string]any)["bound"]
		out = append(out, fmt.Sprintf("%.1f %s %v", a.at.Sub(p.start).Seconds(), a.name, bound))
	}
	return out
}

func (p *publisherEnv) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestCountersArePublishedWhenTheyChangeAndNotSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPublisher(t, newProfile(7))
		defer p.stop()
		time.Sleep(18 * time.Second)
		p.bind("batch", "web-1") // long after the last write: published at once
		time.Sleep(time.Second)
		p.bind("batch", "web-2") // these two wait for the publish period to end
		p.bind("batch", "web-3")
		time.Sleep(time.Minute)
		p.want(t, "0.0 batch 0", "18.0 batch 1", "23.0 batch 3")
	})
}

func TestAllProfilesTogetherGetTwoWritesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var profiles []*v1alpha1.SchedulingProfile
		for i := range 20 {
			profiles = append(profiles, newProfile(1, withName(fmt.Sprintf("p%02d", i))))
		}
		p := startPublisher(t, profiles...)
		defer p.stop()
		for time.Since(p.start) < time.Minute {
			for _, s := range profiles {
				p.bind(s.Name, "web")
			}
			time.Sleep(7 * time.Millisecond)
		}
		count := map[string]int{}
		writes := p.statuses.all()
		for i, a := range writes {
			count[a.name]++
			if i > 0 && a.at.Sub(writes[i-1].at) < minWriteInterval {
				t.Errorf("two writes within %v", a.at.Sub(writes[i-1].at))
			}
		}
		if n := len(writes); n < 120 || n > 121 {
			t.Errorf("%d writes in a minute, want 120, and one at its very end", n)
		}
		for _, s := range profiles {
			if n := count[s.Name]; n < 6 || n > 7 {
				t.Errorf("%s was written %d times, want an equal share of 6", s.Name, n)
			}
		}
	})
}

func TestQueueCountsArePublishedWithoutADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPublisher(t, newProfile(7))
		defer p.stop()
		time.Sleep(12 * time.Second)
		p.counts.Store(decision.QueueCounts{Active: 1, Gated: 2, InFlight: 4})
		time.Sleep(10 * time.Second)
		if n := len(p.statuses.all()); n != 2 {
			t.Fatalf("%d writes, want one at the start and one of the new counts", n)
		}
		queue := p.statuses.last(t).status["queue"].(map[string]any)
		if queue["pending"] != 3.0 || queue["gated"] != 2.0 || queue["inFlight"] != 4.0 {
			t.Errorf("queue is %v", queue)
		}
	})
}

func TestPublishPeriodAndHistoryComeFromTheRunningBlueprint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPublisher(t, newProfile(7, func(s *v1alpha1.SchedulingProfile) {
			s.Spec.Decisions.PublishSeconds, s.Spec.Decisions.History = ptr.To[int32](1), ptr.To[int32](50)
		}))
		defer p.stop()
		p.applier.running["batch"] = profile.Running{Blueprint: &compile.Blueprint{
			Decisions: compile.DecisionSettings{History: 2, Publish: 30 * time.Second},
		}}
		for i := range 5 {
			p.bind("batch", fmt.Sprint("web-", i))
		}
		time.Sleep(time.Minute)
		p.want(t, "0.0 batch 0", "30.0 batch 5")
		status := p.statuses.last(t).status
		if n := len(status["recentDecisions"].([]any)); n != 2 || status["omittedDecisions"] != 3.0 {
			t.Errorf("%d recent decisions and %v omitted, want 2 and 3", n, status["omittedDecisions"])
		}
	})
}

func TestAFailedWriteIsMadeAgainAPeriodLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPublisher(t, newProfile(7))
		defer p.stop()
		time.Sleep(8 * time.Second)
		failures := 0
		p.statuses.mu.Lock()
		p.statuses.reject = func(statusWrite) error {
			if failures++; failures <= 2 {
				return errors.New("the server does not answer")
			}
			return nil
		}
		p.statuses.mu.Unlock()
		p.bind("batch", "web-1")
		time.Sleep(time.Minute)
		p.want(t, "0.0 batch 0", "18.0 batch 1")
	})
}

func TestANewLeaderContinuesThePublishedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now().Add(-time.Hour)
		batch := newProfile(7)
		batch.Status.LastDecisionTime = ptr.To(metav1.NewTime(before.Add(time.Minute)))
		batch.Status.Totals = &v1alpha1.DecisionTotals{Since: ptr.To(metav1.NewTime(before)), Bound: 40, Refusals: 5, Errors: 1, Victims: 2}
		batch.Status.RecentDecisions = []v1alpha1.RecentDecision{{Pod: "b", Result: v1alpha1.ResultBound}, {Pod: "a", Result: v1alpha1.ResultBound}}
		batch.Status.OmittedDecisions = 44
		p := startPublisher(t, batch)
		defer p.stop()
		written := func() map[string]any {
			all := p.statuses.all()
			status := all[len(all)-1].status
			var recent []string
			for _, d := range status["recentDecisions"].([]any) {
				recent = append(recent, d.(map[string]any)["pod"].(string))
			}
			totals := status["totals"].(map[string]any)
			return map[string]any{
				"recent": recent, "omitted": status["omittedDecisions"], "bound": totals["bound"], "refusals": totals["refusals"],
				"errors": totals["errors"], "victims": totals["victims"], "since": totals["since"], "last": status["lastDecisionTime"],
			}
		}
		want := map[string]any{
			"recent": []string{"b", "a"}, "omitted": 44.0, "bound": 40.0, "refusals": 5.0, "errors": 1.0, "victims": 2.0,
			"since": before.UTC().Format(time.RFC3339), "last": before.Add(time.Minute).UTC().Format(time.RFC3339),
		}
		if diff := cmp.Diff(want, written()); diff != "" {
			t.Errorf("before the first decision (-want +got):\n%s", diff)
		}
		p.bind("batch", "c")
		time.Sleep(10 * time.Second)
		want["recent"], want["bound"], want["last"] = []string{"c", "b", "a"}, 41.0, p.start.UTC().Format(time.RFC3339)
		if diff := cmp.Diff(want, written()); diff != "" {
			t.Errorf("after a decision (-want +got):\n%s", diff)
		}
	})
}

// A write arrives between the read of the earlier counts and the first write that is acknowledged.
func TestCountsDoNotGoBackWhenAWriteOfAnEarlierLeaderArrivesLate(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "berth.dev", Resource: "schedulingprofiles"}, "batch", errors.New("changed"))
	for sentence, tt := range map[string]struct {
		late int64 // bound pods in the status after the conflict
		// cached says that the cache has that; else it stays at version 11.
		cached bool
		// after says that it arrives after the first write, which changes nothing.
		after bool
		want  []string // version and bound pods of each write
	}{
		"it counts more than was read":                      {42, false, false, []string{"11: 40", "12: 42", "12: 43"}},
		"the cache has it before the first write":           {42, true, false, []string{"11: 40", "12: 42", "12: 43"}},
		"the first write changes nothing, and is before it": {42, true, true, []string{"11: 40", "11: 41", "12: 43"}},
		"it is this process' own, which client-go sent":     {40, false, false, []string{"11: 40", "12: 40", "12: 41"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				read, now := newProfile(7), newProfile(7)
				read.ResourceVersion, now.ResourceVersion = "11", "12"
				since := ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
				read.Status.Totals, now.Status.Totals = &v1alpha1.DecisionTotals{Since: since, Bound: 40}, &v1alpha1.DecisionTotals{Since: since, Bound: tt.late}
				var tried []string
				statuses := &fakeStatusClient{reject: func(a statusWrite) error {
					tried = append(tried, fmt.Sprintf("%s: %v", a.resourceVersion, a.status["totals"].(map[string]any)["bound"]))
					if a.resourceVersion != "12" && !(tt.after && len(tried) == 1) {
						return conflict
					}
					return nil
				}}
				live := &laterReader{fakeReader{read}, fakeReader{now}}
				cached := read
				if tt.cached {
					cached = now
				}
				p := startPublisherOn(t, statuses, live, cached)
				p.bind("batch", "web-1")
				time.Sleep(20 * time.Second)
				p.stop()
				if diff := cmp.Diff(tt.want, tried); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// An earlier leader has counted nothing, and its first write arrives after that was read.
func TestTotalsOfNothingAreSinceTheEarlierLeader(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Group: "berth.dev", Resource: "schedulingprofiles"}, "batch", errors.New("changed"))
	synctest.Test(t, func(t *testing.T) {
		read, now := newProfile(7), newProfile(7)
		read.ResourceVersion, now.ResourceVersion = "11", "12"
		earlier := time.Now().Add(-6 * time.Second).UTC()
		now.Status.Totals = &v1alpha1.DecisionTotals{Since: ptr.To(metav1.NewTime(earlier))}
		var since []string
		statuses := &fakeStatusClient{reject: func(a statusWrite) error {
			if a.resourceVersion != "12" {
				return conflict
			}
			since = append(since, a.status["totals"].(map[string]any)["since"].(string))
			return nil
		}}
		p := startPublisherOn(t, statuses, &laterReader{fakeReader{read}, fakeReader{now}}, read)
		time.Sleep(20 * time.Second)
		p.stop()
		if diff := cmp.Diff([]string{earlier.Format(time.RFC3339)}, slices.Compact(since)); diff != "" {
			t.Errorf("since, of each write (-want +got):\n%s", diff)
		}
	})
}

// The cache has the new profile before the reconciler has closed the deleted one.
func TestCountsOfADeletedProfileAreNotThoseOfANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPublisher(t, newProfile(7))
		defer p.stop()
		p.ledger.Open("batch", "deleted")
		p.bind("batch", "web-1")
		time.Sleep(30 * time.Second)
		p.want(t, "0.0 batch 0")
	})
}

// laterReader lists what was there first, and gets what is there later.
type laterReader struct{ first, later fakeReader }

func (r *laterReader) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.first.List(ctx, into, opts...)
}

func (r *laterReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return r.later.Get(ctx, key, into, opts...)
}

// failingReader is a reader that fails the given number of times.
type failingReader struct {
	fakeReader
	failures int
}

func (r *failingReader) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if r.failures > 0 {
		r.failures--
		return errors.New("no")
	}
	return r.fakeReader.List(ctx, into, opts...)
}

func TestNothingIsPublishedBeforeTheEarlierCountsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batch := newProfile(7)
		batch.Status.Totals = &v1alpha1.DecisionTotals{Bound: 40}
		p := startPublisherWithLive(t, &failingReader{fakeReader{batch}, 2}, batch)
		defer p.stop()
		time.Sleep(20 * time.Second)
		p.want(t, "10.0 batch 40")
	})
}

func TestADeletedProfileIsPublishedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPublisher(t, newProfile(7))
		time.Sleep(time.Second)
		p.stop()
		p.profiles = fakeReader{}
		p.bind("batch", "web-1") // a bind that was under way
		if next := p.publishOne(t.Context(), logr.Discard()); next <= 0 {
			t.Errorf("the next call is in %v", next)
		}
		if len(p.published) > 0 {
			t.Errorf("still holds %v", p.published)
		}
	})
}

func TestTheLastDecisionsArePublishedAtShutdown(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration // how long the final writes may take
		want  []string
	}{
		"a leader that shuts down writes the last counts": {3 * time.Second, []string{"0.0 batch 0", "20.0 batch 2"}},
		"a process that leads no more writes nothing":     {0, []string{"0.0 batch 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startPublisher(t, newProfile(7, func(s *v1alpha1.SchedulingProfile) { s.Spec.Decisions.PublishSeconds = ptr.To[int32](60) }))
				p.finalWrites = func() (context.Context, context.CancelFunc) {
					time.Sleep(9 * time.Second)
					p.bind("batch", "web-2") // a bind that was under way
					return context.WithTimeout(context.Background(), c.limit)
				}
				time.Sleep(10500 * time.Millisecond)
				p.bind("batch", "web-1")
				p.stop()
				p.want(t, c.want...)
			})
		})
	}
}

func TestARecentDecisionOmitsEmptyFields(t *testing.T) {
	long := strings.Repeat("x", 2*v1alpha1.MaxDecisionMessage)
	bound, unschedulable := recentDecision(decision.Decision{Node: "n1"}), recentDecision(decision.Decision{Message: long})
	if bound.Node == nil || bound.Message != nil {
		t.Errorf("bound: %+v", bound)
	}
	if unschedulable.Node != nil || len(*unschedulable.Message) > v1alpha1.MaxDecisionMessage {
		t.Errorf("unschedulable: node %v, message of %d bytes", unschedulable.Node, len(*unschedulable.Message))
	}
}

func TestManyHeldPodsAreOneEventOnTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, recorder := startPublisher(t, newProfile(1)), &fakeRecorder{}
		p.heldPods.recorder = recorder
		for _, n := range []int{heldPodsThreshold - 1, heldPodsThreshold, 2 * heldPodsThreshold, 1, 3 * heldPodsThreshold, 0, heldPodsThreshold} {
			p.counts.Store(decision.QueueCounts{Held: n})
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		p.stop()
		if diff := cmp.Diff([]string{"Warning PodsHeld Scheduling", "Warning PodsHeld Scheduling"}, recorder.events); diff != "" {
			t.Errorf("events, one before all pods were released and one after (-want +got):\n%s", diff)
		}
	})
}
