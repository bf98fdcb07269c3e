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

// subject is the name of a cell's pod. All other pods of its profile are the stream.
const subject = "subject"

// cellLabel is the label by which Decider recognizes the node or the pod that its cell
// waits for.
const cellLabel = "swap.berth.dev/cell"

// cellPlugins are all plugins that were ever built for a cell's profile.
type cellPlugins struct {
	mu    sync.Mutex
	built []*cellPlugin
	// statuses are those of a Decider that is built now.
	statuses map[string]probe.StatusFunc
	// firstPlugins were built before the subject was created.
	firstPlugins []*cellPlugin
	// buildGate, if not nil, blocks builds; building is the number of them.
	buildGate chan struct{}
	building  int
	// blockedCalls counts the subject's calls that blocked.
	blockedCalls atomic.Int32
}

// cellPlugin is a plugin of one generation, which the handle identifies, or of a trial. It
// blocks and rejects the subject only.
type cellPlugin struct {
	*probe.Plugin
	handle fwk.Handle
}

// testPlugins are the plugins of the cells. They read of pods what in-tree plugins read.
func testPlugins() (all []framework.Registration) {
	for _, name := range []string{swapmatrix.Decider, swapmatrix.Referenced, swapmatrix.Added, swapmatrix.Sort, swapmatrix.OtherSort} {
		all = append(all, framework.Registration{
			Name: name, ReadsTrimmedPods: true, Points: swapmatrix.PluginPoints(name), NewArgs: func() runtime.Object { return &swapmatrix.Args{} },
			New: func(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				of := handle.(interface{ ProfileName() string }).ProfileName()
				for _, c := range cells {
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
	c.waitForBuildGate()
	if mark == swapmatrix.BrokenArgument {
		return nil, errors.New("the argument says that it cannot be built")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &cellPlugin{&probe.Plugin{PluginName: name, Log: &probe.CallLog{}, PermitTimeout: time.Hour}, handle}
	if name == swapmatrix.Decider {
		if !handle.(framework.TrialHandle).OnTrial() {
			p.Statuses = maps.Clone(c.statuses)
		}
		p.Events = []fwk.ClusterEventWithHint{c.requeueEvent()}
	}
	c.built = append(c.built, p)
	return p, nil
}

// waitForBuildGate blocks while there is a buildGate.
func (p *cellPlugins) waitForBuildGate() {
	p.mu.Lock()
	slow := p.buildGate
	p.building++
	p.mu.Unlock()
	if slow != nil {
		<-slow
	}
	p.mu.Lock()
	p.building--
	p.mu.Unlock()
}

// requeueEvent is the event that requeues the pod: a node with the cell's label. PreEnqueue
// is called at every event of a registered kind, whatever the hint says, and other cells
// add nodes, too; so a gated pod waits for its own label.
func (c *cell) requeueEvent() fwk.ClusterEventWithHint {
	if c.place.Where == queue.Gated {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}}
	}
	return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, QueueingHintFn: c.hint}
}

// hint returns Queue for a node with the cell's label.
func (c *cell) hint(_ klog.Logger, _ *v1.Pod, _, node any) (fwk.QueueingHint, error) {
	if n, ok := node.(*v1.Node); ok && n.Labels[cellLabel] == c.name {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *cellPlugins) all() []*cellPlugin {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.built)
}

// setStatuses sets the status of Deciders that are built from now on.
func (p *cellPlugins) setStatuses(point string, answer probe.StatusFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses = map[string]probe.StatusFunc{point: answer}
}

// markFirst ends the first generation's builds: later plugins accept all pods.
func (p *cellPlugins) markFirst() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.firstPlugins, p.statuses = slices.Clone(p.built), nil
}

// resetFirst lets the first generation's plugins accept all pods, too.
func (p *cellPlugins) resetFirst() {
	for _, built := range p.firstPlugins {
		for _, point := range []string{"PreEnqueue", "Filter", "Permit", "PreBind"} {
			built.SetStatus(point, nil)
		}
	}
}

// blockUntilReleased blocks the subject until the cell is released, and returns the status
// then.
func (c *cell) blockUntilReleased(then probe.StatusFunc) probe.StatusFunc {
	return func() *fwk.Status {
		c.blockedCalls.Add(1)
		<-c.released
		if then == nil {
			return nil
		}
		return then()
	}
}

// At these points the plugin ignores other pods.

func (p *cellPlugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.PreEnqueue(ctx, pod)
}

func (p *cellPlugin) Filter(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.Filter(ctx, s, pod, node)
}

func (p *cellPlugin) Reserve(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.Reserve(ctx, s, pod, node)
}

func (p *cellPlugin) Permit(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	if pod.Name != subject {
		return nil, 0
	}
	return p.Plugin.Permit(ctx, s, pod, node)
}

func (p *cellPlugin) PreBindPreFlight(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if pod.Name != subject {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return p.Plugin.PreBindPreFlight(ctx, s, pod, node)
}

func (p *cellPlugin) PreBind(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if pod.Name != subject {
		return nil
	}
	return p.Plugin.PreBind(ctx, s, pod, node)
}

// PostBind records the subject's binding.
func (p *cellPlugin) PostBind(ctx context.Context, s fwk.CycleState, pod *v1.Pod, node string) {
	if pod.Name == subject {
		p.Plugin.PostBind(ctx, s, pod, node)
	}
}
