package run

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// Berth is the real cache, cycle and plugins, driven by hand.
type Berth struct {
	Objects
	config      Config
	blueprint   *compile.Blueprint
	framework   *framework.Framework
	cache       *cache.Cache
	cycle       cycle.Cycle
	memo        *cycle.Memo
	wrong       uint64 // how much of what memo remembered was wrong
	rehearsal   *rehearsal
	unsupported func(*v1.Pod) (field, why string)
	// info is the pod of the last attempt.
	info *framework.PodInfo
	// request is the last attempt.
	request cycle.Request
}

var _ Scheduler = &Berth{}

// OpenBerth compiles the profile and builds its plugins, which live until ctx
// ends. The error names the fields at fault.
func OpenBerth(ctx context.Context, config Config) (Scheduler, error) { return NewBerth(ctx, config) }

// NewBerth is OpenBerth, for those who want to know more of it.
func NewBerth(ctx context.Context, config Config) (*Berth, error) {
	registry := hiding(plugins.InTree(), config.Opaque)
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: config.Profile, Configs: config.Configs, Registry: registry, Version: "replay",
	})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	client := fake.NewClientset()
	b := &Berth{
		Objects:   Objects{informers.NewSharedInformerFactory(client, 0)},
		config:    config,
		blueprint: blueprint,
		cache:     cache.New(),
	}
	if config.Plain {
		b.cache = cache.NewScanning()
	}
	b.rehearsal = b.newRehearsal()
	b.unsupported = plugins.Unsupported(registry, b.devices)
	f, err := framework.New(ctx, framework.Config{Profile: blueprint.Name, Chains: blueprint.Chains, Args: blueprint.Args}, registry,
		framework.Host{
			Client: client, Informers: b.Factory, Recorder: &events.FakeRecorder{},
			Lister: b.cache.Snapshot(), Nominator: b.cache.Nominator, Activator: nobodyWaits{},
			Waiting: framework.NewWaitingPods(clock.RealClock{}), PreBinds: framework.NewPreBinds(),
			Preemptor: b.rehearsal, Clock: clock.RealClock{},
		})
	if err != nil {
		return nil, err
	}
	b.framework = f
	if !config.Plain {
		b.memo = cycle.NewMemo(f)
	}
	if b.memo != nil && config.Explain {
		b.memo.Recheck(1)
	}
	return b, nil
}

// Blueprint is what the profile was resolved to.
func (b *Berth) Blueprint() *compile.Blueprint { return b.blueprint }

// Plugin builds one of the profile's plugins for itself. Its Handle is the
// framework of the profile; what it starts ends with ctx.
func (b *Berth) Plugin(ctx context.Context, name string) (fwk.Plugin, error) {
	return plugins.InTree()[name].New(ctx, b.blueprint.Args[name], b.framework)
}

// Nodes are all nodes as of the last Refresh.
func (b *Berth) Nodes() ([]fwk.NodeInfo, error) { return b.cache.Snapshot().Nodes(), nil }

// Memo is what is remembered; nil where nothing is.
func (b *Berth) Memo() *cycle.Memo { return b.memo }

// Refresh lets the changes so far take effect.
func (b *Berth) Refresh() error {
	b.cache.Refresh()
	return nil
}

// Attempt goes the loop's way from the pod to the chosen node. A pod that the
// queue would hold, since it asks for what this build cannot honour, is
// refused.
func (b *Berth) Attempt(pod *v1.Pod) *Outcome {
	outcome := &Outcome{Pod: pod}
	if field, why := b.unsupported(pod); field != "" {
		outcome.Err = fmt.Errorf("unsupported: %s: %s", field, why)
		return outcome
	}
	snapshot := b.cache.Refresh()
	// A malformed affinity term is left out, as in the loop.
	b.info, _ = b.memo.PodInfo(pod)
	state := framework.NewCycleState()
	b.request = cycle.Request{
		Framework:                b.framework,
		PercentageOfNodesToScore: b.blueprint.PercentageOfNodesToScore,
		Pod:                      pod,
		Snapshot:                 snapshot,
		State:                    state,
		Memo:                     b.memo,
	}
	placement, err := b.cycle.Run(context.Background(), b.request)
	if wrong := b.memo.Stats().Different; wrong > b.wrong {
		b.wrong = wrong
		outcome.Err = errors.New("what was remembered is wrong")
		return outcome
	}
	if err != nil {
		outcome.Err = err
		b.makeRoom(state, outcome)
		return outcome
	}
	outcome.Node, outcome.Evaluated, outcome.Feasible = placement.Node, placement.Evaluated, placement.Feasible
	if b.config.Explain && placement.Scored() > 0 {
		outcome.Scores = scoresOf(placement)
	}
	return outcome
}

// Assume counts the pod in on node; a nomination of it ends.
func (b *Berth) Assume(pod *v1.Pod, node string) error {
	if err := b.cache.Assume(b.info, node); err != nil {
		return err
	}
	b.cache.DeleteNominatedPodIfExists(pod)
	return nil
}

func scoresOf(placement *cycle.Placement) Scores {
	scores := Scores{}
	for i := range placement.Scored() {
		score := placement.Score(i)
		scores[score.Node] = score.Plugins
	}
	return scores
}

// devices says whether a DeviceClass of the log backs an extended resource.
func (b *Berth) devices(resource string) bool {
	classes, _ := b.Factory.Resource().V1().DeviceClasses().Lister().List(labels.Everything())
	for _, class := range classes {
		if name := class.Spec.ExtendedResourceName; name != nil && *name == resource {
			return true
		}
	}
	return false
}

// nobodyWaits has no queue.
type nobodyWaits struct{}

func (nobodyWaits) Activate(klog.Logger, map[string]*v1.Pod) {}
