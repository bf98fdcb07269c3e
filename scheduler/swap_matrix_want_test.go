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

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/support/probe"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// pluginSet records all plugins that were built, each with a journal of its own.
type pluginSet struct {
	mu    sync.Mutex
	built []*pluginInstance
	// answers are what a Judge that is built now returns.
	answers map[string]probe.StatusFunc
	// first are the plugins that were built before the change.
	first []*pluginInstance
	// buildGate, if not nil, blocks the plugins' factories until it is closed.
	buildGate chan struct{}
}

// pluginInstance is one plugin of one generation, which handle identifies.
type pluginInstance struct {
	*probe.Plugin
	handle fwk.Handle
}

func (p *pluginSet) register(registry framework.Registry) {
	p.answers = map[string]probe.StatusFunc{}
	registry[defaultbinder.Name] = framework.Registration{
		Name: defaultbinder.Name, New: defaultbinder.New, Points: []framework.Point{framework.Bind},
	}
	for _, name := range []string{swapmatrix.Decider, swapmatrix.Referenced, swapmatrix.Added, swapmatrix.Sort, swapmatrix.OtherSort} {
		registry[name] = framework.Registration{
			Name: name, Points: swapmatrix.PluginPoints(name), NewArgs: func() runtime.Object { return &swapmatrix.Args{} },
			New: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				return p.build(name, args.(*swapmatrix.Args).Mark, handle)
			},
		}
	}
}

func (p *pluginSet) build(name, mark string, handle fwk.Handle) (fwk.Plugin, error) {
	if p.buildGate != nil {
		<-p.buildGate
	}
	if mark == swapmatrix.BrokenArgument {
		return nil, errors.New("broken by the test")
	}
	built := &pluginInstance{&probe.Plugin{PluginName: name, Log: &probe.CallLog{}, PermitTimeout: time.Hour}, handle}
	if name == swapmatrix.Decider {
		built.Statuses = maps.Clone(p.answers)
		built.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.built = append(p.built, built)
	return built, nil
}

func (p *pluginSet) all() []*pluginInstance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.built)
}

// markFirst marks the plugins built so far as first, and lets later ones pass every pod.
func (p *pluginSet) markFirst() { p.first, p.answers = p.all(), nil }

// allowAll lets the first plugins pass every pod as well.
func (p *pluginSet) allowAll() {
	for _, built := range p.first {
		for _, point := range []string{"PreEnqueue", "Filter", "Permit", "PreBind"} {
			built.SetStatus(point, nil)
		}
	}
}

// blockAnswer returns an answer that blocks until unblocked is closed.
func (c *swapCase) blockAnswer(then probe.StatusFunc) probe.StatusFunc {
	return func() *fwk.Status {
		<-c.unblocked
		if then == nil {
			return nil
		}
		return then()
	}
}

// wantBound expects that the pod was bound once, in that attempt, by one of the
// generations, and that annotation, Events and ledger agree.
func (c *swapCase) wantBound(by []generationID, attempts int) {
	var said struct {
		generationID
		Attempts int
	}
	if pod := c.cluster.Pod(webPod("a")); pod.Spec.NodeName == "" {
		c.t.Errorf("not bound; queue: %s; condition: %q", c.counts(), c.podScheduled("a"))
	} else if err := json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationDecision]), &said); err != nil {
		c.t.Errorf("its annotation: %v", err)
	} else if !slices.Contains(by, said.generationID) || said.Attempts != attempts {
		c.t.Errorf("bound by %+v, want attempt %d of %v", said, attempts, by)
	}
	if n := count(c.cluster.TakeCalls(), "bind a "); n != 1 {
		c.t.Errorf("%d Bindings were sent", n)
	}
	if n := count(c.events.take(), "a Normal Scheduled"); n != 1 {
		c.t.Errorf("%d Scheduled Events", n)
	}
	history, _ := c.options.Ledger.History("p", 50)
	for i, d := range history.Recent {
		if d.Attempts != len(history.Recent)-i || (d.Result == v1alpha1.ResultBound) != (i == 0) || i == 0 && (generationID{d.Hash, d.Generation}) != said.generationID {
			c.t.Errorf("%d decisions before the last: %+v", i, d)
		}
	}
	if len(history.Recent) != attempts {
		c.t.Errorf("%d decisions, want %d", len(history.Recent), attempts)
	}
}

// wantNothingLeft expects that nothing is kept of the pod but its place on a node, that only
// the current generation is alive, and that none is after the profile's deletion.
func (c *swapCase) wantNothingLeft() {
	if diff := cmp.Diff(leftovers{Placed: 1}, c.leftovers()); diff != "" {
		c.t.Errorf("kept (-want +got):\n%s", diff)
	}
	running, ok := c.Profiles().Running("p")
	if !ok || generationIDOf(running.Blueprint) != c.running {
		c.t.Errorf("%+v runs, want %+v", running, c.running)
	}
	var runs fwk.Handle
	if generation, ok := c.Profiles().Acquire("p"); ok {
		runs = generation.Framework
		generation.Release()
	}
	c.wantClosed(func(p *pluginInstance) bool { return p.handle != runs })
	c.Profiles().Delete("p")
	synctest.Wait()
	c.wantClosed(func(*pluginInstance) bool { return true })
}

// wantClosed expects that each plugin for which closed is true was closed once and not
// called afterwards, and that no other plugin was closed.
func (c *swapCase) wantClosed(closed func(*pluginInstance) bool) {
	for i, p := range c.all() {
		lines := p.Log.Lines()
		want := 0
		if closed(p) {
			want = 1
		}
		if n := count(lines, p.PluginName+".Close"); n != want {
			c.t.Errorf("plugin %d, a %s, was closed %d times, want %d", i, p.PluginName, n, want)
		} else if n > 0 && lines[len(lines)-1] != p.PluginName+".Close" {
			c.t.Errorf("plugin %d, a %s, was called after its end: %q", i, p.PluginName, lines)
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
