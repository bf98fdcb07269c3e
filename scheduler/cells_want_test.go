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
type pluginSet struct {
	mu    sync.Mutex
	built []*pluginInstance
	// roles are what a Judge answers that is built now.
	answers map[string]probe.StatusFunc
	// first are those that ran when the pod was put into its place.
	first []*pluginInstance
	// slow, where it is not nil, is what constructors wait for.
	buildGate chan struct{}
}

// instance is one plugin of one generation, which handle stands for.
type pluginInstance struct {
	*probe.Plugin
	handle fwk.Handle
}

func (p *pluginSet) register(registry framework.Registry) {
	p.answers = map[string]probe.StatusFunc{}
	registry[defaultbinder.Name] = framework.Registration{
		Name: defaultbinder.Name, New: defaultbinder.New, Points: []framework.Point{framework.Bind},
	}
	for _, name := range []string{cells.Decider, cells.Referenced, cells.Added, cells.Sort, cells.OtherSort} {
		registry[name] = framework.Registration{
			Name: name, Points: cells.PluginPoints(name), NewArgs: func() runtime.Object { return &cells.Args{} },
			New: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				return p.build(name, args.(*cells.Args).Mark, handle)
			},
		}
	}
}

func (p *pluginSet) build(name, mark string, handle fwk.Handle) (fwk.Plugin, error) {
	if p.buildGate != nil {
		<-p.buildGate
	}
	if mark == cells.BrokenArgument {
		return nil, errors.New("as told")
	}
	built := &pluginInstance{&probe.Plugin{PluginName: name, Log: &probe.CallLog{}, PermitTimeout: time.Hour}, handle}
	if name == cells.Decider {
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

// early says that what is built so far was there first, and that whoever comes
// lets everything pass.
func (p *pluginSet) markFirst() { p.first, p.answers = p.all(), nil }

// open has those who were there first let everything pass, too.
func (p *pluginSet) allowAll() {
	for _, built := range p.first {
		for _, point := range []string{"PreEnqueue", "Filter", "Permit", "PreBind"} {
			built.SetStatus(point, nil)
		}
	}
}

// stuck keeps a pod until the cell is freed, and answers then.
func (c *swapCase) blockAnswer(then probe.StatusFunc) probe.StatusFunc {
	return func() *fwk.Status {
		<-c.unblocked
		if then == nil {
			return nil
		}
		return then()
	}
}

// wantBound wants the pod to be bound once, in its nth attempt, and whoever
// asks to be told the same.
func (c *swapCase) wantBound(by []generationID, attempts int) {
	var said struct {
		generationID
		Attempts int
	}
	if pod := c.cluster.Pod(webPod("a")); pod.Spec.NodeName == "" {
		c.t.Errorf("not bound; in the queue: %s; it says %q", c.counts(), c.podScheduled("a"))
	} else if err := json.Unmarshal([]byte(pod.Annotations[decision.AnnotationKey]), &said); err != nil {
		c.t.Errorf("its annotation: %v", err)
	} else if !slices.Contains(by, said.generationID) || said.Attempts != attempts {
		c.t.Errorf("bound by %+v, want attempt %d of %v", said, attempts, by)
	}
	if n := count(c.cluster.TakeCalls(), "bind a "); n != 1 {
		c.t.Errorf("%d Bindings were written", n)
	}
	if n := count(c.events.take(), "a Normal Scheduled"); n != 1 {
		c.t.Errorf("%d events say that it was bound", n)
	}
	page, _ := c.options.Ledger.History("p", 50)
	for i, d := range page.Recent {
		if d.Attempts != len(page.Recent)-i || (d.Result == decision.Bound) != (i == 0) || i == 0 && (generationID{d.Hash, d.Generation}) != said.generationID {
			c.t.Errorf("%d decisions before the last: %+v", i, d)
		}
	}
	if len(page.Recent) != attempts {
		c.t.Errorf("%d decisions, want %d", len(page.Recent), attempts)
	}
}

// wantNothingLeft wants nothing to be kept of the pod but that it has a node,
// and of the generations only what runs; and when that ends, nothing.
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

// wantClosed wants each plugin to be closed once, and not to be asked after
// that, or not to be closed.
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
			c.t.Errorf("plugin %d, a %s, was asked after its end: %q", i, p.PluginName, lines)
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
