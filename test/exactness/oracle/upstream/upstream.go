// Package upstream runs a log through kube-scheduler 1.37.1: its own cache, queue (for
// nominations), framework and SchedulePod, with parallelism 1 and without batching. Berth's
// decisions are compared with it.
package upstream

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates, at their defaults
	"k8s.io/kubernetes/pkg/scheduler"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/replay/run"
)

// Scheduler is a kube-scheduler whose attempts are called one by one.
type Scheduler struct {
	sandbox.Objects
	ctx       context.Context
	log       klog.Logger
	scheduler *scheduler.Scheduler
	framework framework.Framework
	profile   *internal.KubeSchedulerProfile
	snapshot  *cache.Snapshot
	// podStore has the pods that exist for the nominator.
	podStore toolscache.Store
	// recorder has the results of the last attempt; nil unless Config.Explain is set.
	recorder *recorder
	// evaluator preempts; nil unless Config.Preempt is set and the plugin is enabled. prefer
	// is the node to choose where the criteria leave a choice, tied the number of such nodes.
	evaluator *evaluator
	// groupPreemption preempts for groups; nil without.
	groupPreemption *groupPreemption
	// preempts is Config.Preempt.
	preempts bool
	prefer   string
	tied     int
	// attempted is the pod of the last attempt.
	attempted *framework.PodInfo
}

var _ run.Scheduler = &Scheduler{}

// client is shared by all plugins, since nothing is written.
var client = sync.OnceValue(func() clientset.Interface { return fake.NewClientset() })

// prepare disables what is not compared, once in the process.
var prepare = sync.OnceValue(func() error {
	klog.SetLogger(logr.Discard())
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"OpportunisticBatching": false})
})

// Open is New as a run.Open.
func Open(ctx context.Context, config run.Config) (run.Scheduler, error) { return New(ctx, config) }

// New builds a kube-scheduler for a profile; what it starts ends with ctx.
func New(ctx context.Context, config run.Config) (*Scheduler, error) {
	profile, err := Profile(config)
	if err != nil {
		return nil, err
	}
	return NewForProfile(ctx, profile, config)
}

// NewForProfile builds a kube-scheduler for a profile of its own configuration; config says
// how the log is run.
func NewForProfile(ctx context.Context, profile *internal.KubeSchedulerProfile, config run.Config) (*Scheduler, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		Objects:  sandbox.NewObjects(client()),
		profile:  profile,
		preempts: config.Preempt,
		log:      logr.Discard(),
		snapshot: cache.NewEmptySnapshot(),
	}
	s.ctx = klog.NewContext(ctx, s.log)
	s.podStore = s.Factory.Core().V1().Pods().Informer().GetStore()
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	var err error
	s.scheduler, err = scheduler.New(s.ctx, client(), s.Factory, nil, recorders,
		scheduler.WithProfiles(*profile), scheduler.WithParallelism(1), scheduler.WithNodeInfoSnapshot(s.snapshot),
		scheduler.WithFrameworkOutOfTreeRegistry(outOfTree(config)))
	if err != nil {
		return nil, err
	}
	s.framework = s.scheduler.Profiles[profile.SchedulerName]
	if config.Preempt {
		if s.evaluator, err = newEvaluator(s.ctx, profile, s.framework); err != nil {
			return nil, err
		}
	}
	if config.Explain {
		s.recorder = &recorder{Framework: s.framework}
		s.framework = s.recorder
	}
	return s, nil
}

// outOfTree returns the out-of-tree plugins as kube-scheduler registers them.
func outOfTree(config run.Config) frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for _, plugin := range config.OutOfTree {
		registry[plugin.Name] = frameworkruntime.PluginFactory(plugin.New)
	}
	return registry
}

// UpdateSnapshot updates the snapshot.
func (s *Scheduler) UpdateSnapshot() error {
	return s.scheduler.Cache.UpdateSnapshot(s.log, s.snapshot)
}

// Attempt runs kube-scheduler's SchedulePod, and PostFilter where no node is feasible.
func (s *Scheduler) Attempt(pod *v1.Pod) *run.Outcome {
	outcome := &run.Outcome{Pod: pod}
	if outcome.Err = s.UpdateSnapshot(); outcome.Err != nil {
		return outcome
	}
	// A malformed affinity term is left out, as in the queue.
	s.attempted, _ = framework.NewPodInfo(pod)
	if s.recorder != nil {
		s.recorder.reset()
	}
	state := framework.NewCycleState()
	result, err := s.scheduler.SchedulePod(s.ctx, s.framework, state, &framework.QueuedPodInfo{PodInfo: s.attempted})
	outcome.Node, outcome.Evaluated, outcome.Feasible, outcome.Err = result.SuggestedHost, result.EvaluatedNodes, result.FeasibleNodes, err
	if s.recorder != nil && err == nil {
		outcome.Scores = s.recorder.scores()
	}
	s.runPostFilter(state, outcome)
	return outcome
}

// Assume adds a copy of the pod to the cache, as kube-scheduler's assume does, and ends its
// nomination.
func (s *Scheduler) Assume(_ *v1.Pod, node string) error {
	assumed := s.attempted.DeepCopy().Pod
	assumed.Spec.NodeName = node
	if err := s.scheduler.Cache.AssumePod(s.log, assumed); err != nil {
		return fmt.Errorf("kube-scheduler's cache: %w", err)
	}
	if _, listed, _ := s.podStore.Get(assumed); listed {
		s.scheduler.SchedulingQueue.Delete(s.log, assumed)
		return s.podStore.Delete(assumed)
	}
	return nil
}

// Plugin builds one of the profile's plugins once more, as kube-scheduler does. Its Handle is
// the framework of the profile.
func (s *Scheduler) Plugin(ctx context.Context, name string) (fwk.Plugin, error) {
	build, ok := upstreamplugins.NewInTreeRegistry()[name]
	if !ok {
		return nil, fmt.Errorf("kube-scheduler has no plugin %s", name)
	}
	var args runtime.Object
	for _, given := range s.profile.PluginConfig {
		if given.Name == name {
			args = given.Args
		}
	}
	return build(ctx, args, s.framework)
}

// Nodes returns all nodes of the last UpdateSnapshot.
func (s *Scheduler) Nodes() []fwk.NodeInfo {
	nodes, _ := s.snapshot.NodeInfos().List() // the snapshot's own list, which never fails
	return nodes
}

// recorder is a Framework that records the results of an attempt.
type recorder struct {
	framework.Framework
	refused map[string]int
	scored  []fwk.NodePluginScores
}

// Refused returns the number of nodes that each plugin refused in the last attempt. A refusal
// in PreFilter counts as one.
func (s *Scheduler) Refused() map[string]int { return maps.Clone(s.recorder.refused) }

// Scored returns the scores of the last attempt, in the order of the nodes.
func (s *Scheduler) Scored() []fwk.NodePluginScores { return s.recorder.scored }

// Winner is the node that kube-scheduler picks by the total scores.
func Winner(scores []fwk.NodePluginScores) string {
	return framework.NewSortedScoredNodes(append([]fwk.NodePluginScores(nil), scores...)).Pop().Name
}

func (o *recorder) reset() { o.refused, o.scored = map[string]int{}, nil }

func (o *recorder) addRefusal(status *fwk.Status) {
	if status.IsRejected() && status.Plugin() != "" {
		o.refused[status.Plugin()]++
	}
}

func (o *recorder) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := o.Framework.RunPreFilterPlugins(ctx, state, pod)
	o.addRefusal(status)
	for plugin := range plugins {
		o.refused[plugin]++ // it excluded nodes
	}
	return result, status, plugins
}

func (o *recorder) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	status := o.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	o.addRefusal(status)
	return status
}

func (o *recorder) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := o.Framework.RunScorePlugins(ctx, state, pod, nodes)
	// The caller makes a heap of its slice.
	o.scored = append([]fwk.NodePluginScores(nil), scores...)
	return scores, status
}

func (o *recorder) scores() run.Scores {
	if o.scored == nil {
		return nil
	}
	scores := run.Scores{}
	for _, node := range o.scored {
		scores[node.Name] = map[string]int64{}
		for _, plugin := range node.Scores {
			scores[node.Name][plugin.Name] = plugin.Score
		}
	}
	return scores
}
