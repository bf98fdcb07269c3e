package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/cells"
	"github.com/berthdev/berth/test/probe"
)

// cast are all that were ever built, each with a journal of its own.
type cast struct {
	mu    sync.Mutex
	built []*instance
	// roles are what a Judge answers that is built now.
	roles map[string]probe.Answer
	// first are those that ran when the pod was put into its place.
	first []*instance
	// slow, where it is not nil, is what constructors wait for.
	slow chan struct{}
}

// instance is one plugin of one generation, which handle stands for.
type instance struct {
	*probe.Probe
	handle fwk.Handle
}

func (p *cast) register(registry framework.Registry) {
	p.roles = map[string]probe.Answer{}
	registry[defaultbinder.Name] = framework.Registration{
		Name: defaultbinder.Name, New: defaultbinder.New, Points: []framework.Point{framework.Bind},
	}
	for _, name := range []string{cells.Judge, cells.Visitor, cells.Newcomer, cells.Sorts, cells.SortsToo} {
		registry[name] = framework.Registration{
			Name: name, Points: cells.Points(name), NewArgs: func() runtime.Object { return &cells.Args{} },
			New: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				return p.build(name, args.(*cells.Args).Mark, handle)
			},
		}
	}
}

func (p *cast) build(name, mark string, handle fwk.Handle) (fwk.Plugin, error) {
	if p.slow != nil {
		<-p.slow
	}
	if mark == cells.Broken {
		return nil, errors.New("as told")
	}
	built := &instance{&probe.Probe{Called: name, Journal: &probe.Journal{}, Waits: time.Hour}, handle}
	if name == cells.Judge {
		built.On = maps.Clone(p.roles)
		built.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.built = append(p.built, built)
	return built, nil
}

func (p *cast) all() []*instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.built)
}

// early says that what is built so far was there first, and that whoever comes
// lets everything pass.
func (p *cast) early() { p.first, p.roles = p.all(), nil }

// open has those who were there first let everything pass, too.
func (p *cast) open() {
	for _, built := range p.first {
		for _, point := range []string{"PreEnqueue", "Filter", "Permit", "PreBind"} {
			built.Set(point, nil)
		}
	}
}

// stuck keeps a pod until the cell is freed, and answers then.
func (c *cell) stuck(then probe.Answer) probe.Answer {
	return func() *fwk.Status {
		<-c.free
		if then == nil {
			return nil
		}
		return then()
	}
}

// wantBound wants the pod to be bound once, in its nth attempt, and whoever
// asks to be told the same.
func (c *cell) wantBound(by []stamp, attempts int) {
	var said struct {
		stamp
		Attempts int
	}
	if pod := c.cluster.Pod(web("a")); pod.Spec.NodeName == "" {
		c.t.Errorf("not bound; in the queue: %s; it says %q", c.counts(), c.scheduled("a"))
	} else if err := json.Unmarshal([]byte(pod.Annotations[decision.AnnotationKey]), &said); err != nil {
		c.t.Errorf("its annotation: %v", err)
	} else if !slices.Contains(by, said.stamp) || said.Attempts != attempts {
		c.t.Errorf("bound by %+v, want attempt %d of %v", said, attempts, by)
	}
	if n := count(c.cluster.Take(), "bind a "); n != 1 {
		c.t.Errorf("%d Bindings were written", n)
	}
	if n := count(c.events.take(), "a Normal Scheduled"); n != 1 {
		c.t.Errorf("%d events say that it was bound", n)
	}
	page, _ := c.options.Ledger.Page("p", 50)
	for i, d := range page.Recent {
		if d.Attempts != len(page.Recent)-i || (d.Result == decision.Bound) != (i == 0) || i == 0 && (stamp{d.Hash, d.Generation}) != said.stamp {
			c.t.Errorf("%d decisions before the last: %+v", i, d)
		}
	}
	if len(page.Recent) != attempts {
		c.t.Errorf("%d decisions, want %d", len(page.Recent), attempts)
	}
}

// wantNothingLeft wants nothing to be kept of the pod but that it has a node,
// and of the generations only what runs; and when that ends, nothing.
func (c *cell) wantNothingLeft() {
	if diff := cmp.Diff(kept{Placed: 1}, c.kept()); diff != "" {
		c.t.Errorf("kept (-want +got):\n%s", diff)
	}
	running, ok := c.Profiles().Running("p")
	if !ok || stampOf(running.Blueprint) != c.runs {
		c.t.Errorf("%+v runs, want %+v", running, c.runs)
	}
	var runs fwk.Handle
	if generation, ok := c.Profiles().Acquire("p"); ok {
		runs = generation.Framework
		generation.Release()
	}
	c.wantClosed(func(p *instance) bool { return p.handle != runs })
	c.Profiles().Delete("p")
	synctest.Wait()
	c.wantClosed(func(*instance) bool { return true })
}

// wantClosed wants each plugin to be closed once, and not to be asked after
// that, or not to be closed.
func (c *cell) wantClosed(closed func(*instance) bool) {
	for i, p := range c.all() {
		lines := p.Journal.Lines()
		want := 0
		if closed(p) {
			want = 1
		}
		if n := count(lines, p.Called+".Close"); n != want {
			c.t.Errorf("plugin %d, a %s, was closed %d times, want %d", i, p.Called, n, want)
		} else if n > 0 && lines[len(lines)-1] != p.Called+".Close" {
			c.t.Errorf("plugin %d, a %s, was asked after its end: %q", i, p.Called, lines)
		}
	}
}

func count(lines []string, begins string) (n int) {
	for _, line := range lines {
		if strings.HasPrefix(line, begins) {
			n++
		}
	}
	return n
}
