package swap

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/probe"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// subject is the name of the pod that a cell is about; all others of its
// profile are the stream.
const subject = "subject"

// cellOf is the label by which a Judge knows the node, or the pod, that its cell waits
// for.
const cellOf = "swap.berth.dev/cell"

// cast are all plugins that were ever built for a cell's profile.
type cast struct {
	mu    sync.Mutex
	built []*player
	// roles are what a Judge answers the subject that is built now.
	roles map[string]probe.StatusFunc
	// first are those that ran when the subject was put into its place.
	first []*player
	// slow, where it is not nil, is what builds wait for, and building how many
	// do.
	slow     chan struct{}
	building int
	// stuck is how often the subject came to where it is kept.
	stuck atomic.Int32
}

// player is a plugin of one generation, which handle stands for, or of a trial.
// It keeps or refuses the subject alone.
type player struct {
	*probe.Plugin
	handle fwk.Handle
}

// players are the plugins of the cells. They read of pods what built-in plugins read.
func players() (all []framework.Registration) {
	for _, name := range []string{swapmatrix.Decider, swapmatrix.Referenced, swapmatrix.Added, swapmatrix.Sort, swapmatrix.OtherSort} {
		all = append(all, framework.Registration{
			Name: name, ReadsTrimmedPods: true, Points: swapmatrix.PluginPoints(name), NewArgs: func() runtime.Object { return &swapmatrix.Args{} },
			New: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				of := handle.(interface{ ProfileName() string }).ProfileName()
				for _, c := range theCells {
					if c.name == of {
						return c.build(name, args.(*swapmatrix.Args).Mark, handle)
					}
				}
				return nil, errors.New("no cell is called " + of)
			},
		})
	}
	return all
}

func (c *cell) build(name, mark string, handle fwk.Handle) (fwk.Plugin, error) {
	c.wait()
	if mark == swapmatrix.BrokenArgument {
		return nil, errors.New("as told")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &player{&probe.Plugin{PluginName: name, Log: &probe.CallLog{}, PermitTimeout: time.Hour}, handle}
	if name == swapmatrix.Decider {
		if !handle.(framework.TrialHandle).OnTrial() {
			p.Statuses = maps.Clone(c.roles)
		}
		p.Events = []fwk.ClusterEventWithHint{c.waitsFor()}
	}
	c.built = append(c.built, p)
	return p, nil
}

// wait is what makes a build slow.
func (p *cast) wait() {
	p.mu.Lock()
	slow := p.slow
	p.building++
	p.mu.Unlock()
	if slow != nil {
		<-slow
	}
	p.mu.Lock()
	p.building--
	p.mu.Unlock()
}

// waitsFor is the event that the pod waits for: a node of the cell's own. A gate is
// asked upon every event of the kind that it names, whatever the hint says, and other
// cells have nodes, too: a gated pod waits for its own label.
func (c *cell) waitsFor() fwk.ClusterEventWithHint {
	if c.place.Where == queue.Gated {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}}
	}
	return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, QueueingHintFn: c.hint}
}

// hint says that a node of the cell's own helps the subject.
func (c *cell) hint(_ klog.Logger, _ *v1.Pod, _, node any) (fwk.QueueingHint, error) {
	if n, ok := node.(*v1.Node); ok && n.Labels[cellOf] == c.name {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *cast) all() []*player {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.built)
}

// gives says what a Judge answers that is built from now on.
func (p *cast) gives(point string, answer probe.StatusFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles = map[string]probe.StatusFunc{point: answer}
}

// early says that what is built so far was there first, and that whoever comes
// lets everything pass.
func (p *cast) early() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first, p.roles = slices.Clone(p.built), nil
}

// open has those who were there first let everything pass, too.
func (p *cast) open() {
	for _, built := range p.first {
		for _, point := range []string{"PreEnqueue", "Filter", "Permit", "PreBind"} {
			built.SetStatus(point, nil)
		}
	}
}

// keeps keeps the subject until the cell is freed, and answers then.
func (c *cell) keeps(then probe.StatusFunc) probe.StatusFunc {
	return func() *fwk.Status {
		c.stuck.Add(1)
		<-c.free
		if then == nil {
			return nil
		}
		return then()
	}
}

// The points at which a player has a word with the subject alone.

func (p *player) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.PreEnqueue(ctx, pod)
}

func (p *player) Filter(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.Filter(ctx, s, pod, node)
}

func (p *player) Reserve(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.Reserve(ctx, s, pod, node)
}

func (p *player) Permit(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if pod.Name != subject {
		return nil, 0
	}
	return p.Plugin.Permit(ctx, s, pod, node)
}

func (p *player) PreBindPreFlight(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Name != subject {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return p.Plugin.PreBindPreFlight(ctx, s, pod, node)
}

func (p *player) PreBind(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.PreBind(ctx, s, pod, node)
}

// PostBind is where a player hears of a binding.
func (p *player) PostBind(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) {
	if pod.Name == subject {
		p.Plugin.PostBind(ctx, s, pod, node)
	}
}
