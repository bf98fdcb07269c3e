// Package controllers reconciles Berth's own resources. One reconciler compiles a
// SchedulingProfile and the PluginConfigs that it references into a Blueprint, applies
// it to the running profiles, and writes the result as conditions. Another one writes
// the conditions of PluginConfigs. A publisher copies what the ledger counted into the
// profiles' status, at its own pace. Nothing else writes to these resources.
//
// The package reaches the scheduler through two types only: Applier, which profile.Set
// implements, and decision.Ledger.
package controllers

import (
	"context"
	"errors"

	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
)

// Applier runs profiles. *profile.Set is its implementation. Calls for one profile
// never overlap; calls for several profiles do.
type Applier interface {
	// Try runs a trial of the Blueprint with the profile's pods, and changes nothing.
	// The error is a *profile.TrialError when the Blueprint should not run, and a
	// *profile.BuildError when a plugin cannot be built.
	Try(ctx context.Context, blueprint *compile.Blueprint) (profile.Trial, error)
	// LastTrial returns the last trial of a profile; false when there was none.
	LastTrial(name string) (profile.Trial, bool)
	// Apply builds the Blueprint and swaps it in. It builds nothing when the same hash
	// runs already. After an error, which is a *profile.BuildError when a plugin could
	// not be built, the earlier Blueprint keeps running.
	Apply(ctx context.Context, blueprint *compile.Blueprint) error
	// CheckPlace returns profile.ErrTooManyGenerations when Try and Apply of a Blueprint that
	// does not run would.
	CheckPlace(name string) error
	// Hold holds the pods of a profile that does not run, and writes the reason into
	// their conditions. It does nothing when the profile runs; a later Apply releases
	// the pods.
	Hold(name, reason string)
	// Release takes back Hold for a name that another scheduler may serve, and writes
	// nothing to its pods. It does nothing when they are not held.
	Release(name string)
	// Pause holds or releases the pods of a name, whether something runs
	// under that name yet or not.
	SetPaused(name string, paused bool)
	// Delete holds the pods of a deleted profile, and forgets that it was paused.
	Delete(name string)
	// Running returns what runs under a name; false when nothing does.
	Running(name string) (profile.Running, bool)
	// DegradedChanged returns a channel that holds one value after plugins of a profile
	// became degraded or recovered, and TakeDegradedChanges the names of such profiles.
	DegradedChanged() <-chan struct{}
	TakeDegradedChanges() []string
}

// QueueCounter counts a profile's pending pods by where they wait.
type QueueCounter interface {
	QueueCounts(profile string) decision.QueueCounts
}

// Options are the dependencies and settings of the controllers.
type Options struct {
	// Applier runs the profiles. Required.
	Applier Applier
	// Registry lists the plugins that specs may enable. Required.
	Registry framework.Registry
	// Ledger holds the decisions that the publisher writes. Required.
	Ledger *decision.Ledger
	// Queue counts pending pods. Required.
	Queue QueueCounter
	// OtherSchedulers are the schedulers beside Berth. With the zero value Berth knows
	// of none and does not serve default-scheduler.
	OtherSchedulers OtherSchedulers
	// Readiness passes when this replica may become the leader; nil when it is not
	// used.
	Readiness *ReadinessCheck
	// ProfileCache is what the scheduler asks when this replica becomes the leader; nil when it
	// asks nothing.
	ProfileCache *ProfileCache
	// DefaultProfile is the name of the profile that the leader creates while there is
	// none; empty for no such profile.
	DefaultProfile string
	// History stores the revisions that ran; nil for memory only.
	History *history.History
	// Crashes are the crashes of earlier processes of this container. CrashesRecorded
	// is called once the revisions have their marks; nil for no call.
	Crashes         []history.Crash
	CrashesRecorded func()
	// Exporter writes ConfigMaps for other programs; nil when nothing is exported,
	// which the condition Exported then says.
	Exporter *export.Exporter
	// Version is Berth's version, a part of every hash.
	Version string
	// Extenders says what extenders may do. The zero value allows nothing.
	Extenders compile.ExtenderPermissions
	// Clock is the time of conditions and paces the publisher; nil for the real one.
	Clock clock.Clock
	// BindsInProgress reports whether pods are being bound. Writes of explanations slow
	// down meanwhile. May be nil.
	BindsInProgress func() bool
	// Explanations is the queue of explanations to write; nil when none are written.
	Explanations *explain.Queue
	// DecisionClient writes SchedulingDecisions, see explainer.NewClient. Required with
	// Explanations.
	DecisionClient restclient.Interface
	// Pods lists every pod that has not terminated, once PodsSynced returns true.
	// Required with Explanations.
	Pods       corelisters.PodLister
	PodsSynced func() bool
	// FinalWrites waits until no pod is scheduled any more, and returns the context of
	// the writes that follow; nil when nothing is written after the manager ends.
	FinalWrites func() (context.Context, context.CancelFunc)
	// Writes writes statuses and the default profile, and should do so only while this process
	// leads: one that was frozen goes on before it knows that it has a successor. nil for the
	// manager's client.
	Writes client.Client
	// Recorder reports transitions of conditions as Events; nil for the manager's own,
	// with the name ReportingController.
	Recorder events.EventRecorder
	// Wait is how the publisher waits; nil means explainer.WaitWithTimers of Clock.
	Wait explainer.WaitFunc
}

// Cluster is how a controller reads and writes Berth's resources. All fields are required.
type Cluster struct {
	// Cache reads what the informers have, Live what the API server has.
	Cache, Live client.Reader
	// Status writes statuses.
	Status client.StatusClient
	// Elected is closed once this process leads.
	Elected <-chan struct{}
}

// ReportingController is the reporting controller in the Events of this package.
const ReportingController = "berth.dev/controllers"

// SetupWithManager adds the reconcilers, the publisher and their helpers to mgr. The
// CRDs must be served by then, since it adds indexes to mgr's caches. An error names a
// missing field of o, or comes from mgr.
//
// Every replica compiles and applies profiles, so that a follower is ready to become
// the leader. Only the leader writes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := o.setDefaults(mgr); err != nil {
		return err
	}
	if err := indexProfiles(mgr); err != nil {
		return err
	}
	cluster := Cluster{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Status: o.Writes, Elected: mgr.Elected()}
	profiles := newProfileReconciler(cluster, o)
	configs := &pluginConfigReconciler{
		reader: mgr.GetClient(), status: profiles.status, check: compile.Config, registry: o.Registry,
	}
	if o.Readiness == nil {
		o.Readiness = &ReadinessCheck{}
	}
	if o.DefaultProfile != "" {
		if err := mgr.Add(&defaultProfileCreator{
			name: o.DefaultProfile, profiles: mgr.GetClient(), live: mgr.GetAPIReader(), creator: o.Writes, clock: o.Clock,
		}); err != nil {
			return err
		}
	}
	if o.Explanations != nil {
		if err := mgr.Add(explainer.New(explainer.Options{
			Queue: o.Explanations, Client: o.DecisionClient, Pods: o.Pods, PodsSynced: o.PodsSynced, Clock: o.Clock, BindsInProgress: o.BindsInProgress, FinalWrites: o.FinalWrites,
		})); err != nil {
			return err
		}
	}
	return errors.Join(
		mgr.Add(&readinessChecker{check: o.Readiness, reconciler: profiles, recorder: o.Recorder, clock: o.Clock}),
		profiles.setup(mgr),
		configs.setup(mgr),
		mgr.Add(NewPublisher(cluster, o)),
		mgr.Add(&historyPruner{profiles: mgr.GetClient(), history: o.History, clock: o.Clock}),
	)
}

func (o *Options) setDefaults(mgr ctrl.Manager) error {
	switch {
	case o.Applier == nil:
		return errors.New("controllers: Options.Applier is nil; it must be the profile.Set that the scheduler acquires from")
	case o.Registry == nil:
		return errors.New("controllers: Options.Registry is nil; it must list the plugins that profiles may name")
	case o.Ledger == nil:
		return errors.New("controllers: Options.Ledger is nil; it must be the ledger that the scheduler records to")
	case o.Explanations != nil && (o.DecisionClient == nil || o.Pods == nil || o.PodsSynced == nil):
		return errors.New("controllers: Options.Explanations needs DecisionClient, Pods and PodsSynced: the client that writes explanations, and the pods that exist")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.History == nil {
		o.History = history.New(history.Options{Clock: o.Clock})
	}
	if o.Writes == nil {
		o.Writes = mgr.GetClient()
	}
	if o.Recorder == nil {
		o.Recorder = mgr.GetEventRecorder(ReportingController)
	}
	return nil
}
