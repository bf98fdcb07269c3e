// Package upstream is kube-scheduler 1.37.1 as something that a log can be run
// through: its own cache, queue (for nominations), framework and SchedulePod,
// with parallelism 1 and without batching. It is what Berth's decisions are
// held to.
package upstream

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates, at their defaults
	"k8s.io/kubernetes/pkg/scheduler"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/replay/run"
)

// Scheduler is a kube-scheduler that is driven by hand.
type Scheduler struct {
	sandbox.Objects
	ctx       context.Context
	log       klog.Logger
	scheduler *scheduler.Scheduler
	framework framework.Framework
	profile   *internal.KubeSchedulerProfile
	snapshot  *cache.Snapshot
	// listed are the pods that the nominator believes to exist.
	listed toolscache.Store
	// observed is what the last attempt was seen to do; nil unless it is
	// explained.
	observed *observed
	// evaluator preempts; nil unless that is asked for and enabled. prefer is
	// what to choose where chance would, tied among how many it chose.
	evaluator *evaluator
	prefer    string
	tied      int
	// attempted is the pod of the last attempt.
	attempted *framework.PodInfo
}

var _ run.Scheduler = &Scheduler{}

// client is what plugins get; one serves all, since nothing is written.
var client = sync.OnceValue(func() clientset.Interface { return fake.NewClientset() })

// prepare switches off what the comparison leaves out, once in the process.
var prepare = sync.OnceValue(func() error {
	klog.SetLogger(logr.Discard())
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"OpportunisticBatching": false})
})

// Open builds a kube-scheduler for a profile; what it starts ends with ctx.
func Open(ctx context.Context, config run.Config) (run.Scheduler, error) { return New(ctx, config) }

// New is Open, for those who want to see more of an attempt.
func New(ctx context.Context, config run.Config) (*Scheduler, error) {
	profile, err := Profile(config)
	if err != nil {
		return nil, err
	}
	return For(ctx, profile, config)
}

// For builds a kube-scheduler for a profile of its own configuration; config says
// how the log is run.
func For(ctx context.Context, profile *internal.KubeSchedulerProfile, config run.Config) (*Scheduler, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	s := &Scheduler{
		Objects:  sandbox.Objects{Factory: informers.NewSharedInformerFactory(client(), 0)},
		profile:  profile,
		log:      logr.Discard(),
		snapshot: cache.NewEmptySnapshot(),
	}
	s.ctx = klog.NewContext(ctx, s.log)
	s.listed = s.Factory.Core().V1().Pods().Informer().GetStore()
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	var err error
	s.scheduler, err = scheduler.New(s.ctx, client(), s.Factory, nil, recorders,
		scheduler.WithProfiles(*profile), scheduler.WithParallelism(1), scheduler.WithNodeInfoSnapshot(s.snapshot),
		scheduler.WithFrameworkOutOfTreeRegistry(foreign(config)))
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
		s.observed = &observed{Framework: s.framework}
		s.framework = s.observed
	}
	return s, nil
}

// foreign are the plugins of somebody else, as kube-scheduler registers them.
func foreign(config run.Config) frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for _, plugin := range config.Foreign {
		registry[plugin.Name] = frameworkruntime.PluginFactory(plugin.New)
	}
	return registry
}

// Refresh brings the snapshot up to date.
func (s *Scheduler) UpdateSnapshot() error {
	return s.scheduler.Cache.UpdateSnapshot(s.log, s.snapshot)
}

// Attempt goes kube-scheduler's way from the pod to the chosen node.
func (s *Scheduler) Attempt(pod *v1.Pod) *run.Outcome {
	outcome := &run.Outcome{Pod: pod}
	if outcome.Err = s.UpdateSnapshot(); outcome.Err != nil {
		return outcome
	}
	// A malformed affinity term is left out, as in the queue.
	s.attempted, _ = framework.NewPodInfo(pod)
	if s.observed != nil {
		s.observed.begin()
	}
	state := framework.NewCycleState()
	result, err := s.scheduler.SchedulePod(s.ctx, s.framework, state, &framework.QueuedPodInfo{PodInfo: s.attempted})
	outcome.Node, outcome.Evaluated, outcome.Feasible, outcome.Err = result.SuggestedHost, result.EvaluatedNodes, result.FeasibleNodes, err
	if s.observed != nil && err == nil {
		outcome.Scores = s.observed.scores()
	}
	s.makeRoom(state, outcome)
	return outcome
}

// Assume counts a copy of the pod in, as kube-scheduler's assume does; a
// nomination of it ends.
func (s *Scheduler) Assume(_ *v1.Pod, node string) error {
	assumed := s.attempted.DeepCopy().Pod
	assumed.Spec.NodeName = node
	if err := s.scheduler.Cache.AssumePod(s.log, assumed); err != nil {
		return fmt.Errorf("kube-scheduler's cache: %w", err)
	}
	if _, listed, _ := s.listed.Get(assumed); listed {
		s.scheduler.SchedulingQueue.Delete(s.log, assumed)
		return s.listed.Delete(assumed)
	}
	return nil
}
