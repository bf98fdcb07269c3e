// Package controllers is where Berth's own resources come in and their status
// goes out. A reconciler turns a SchedulingProfile and the PluginConfigs it
// names into a Blueprint, hands that to the profiles that run, and writes what
// came of it as conditions. A publisher copies what the ledger counted into
// the status, at a pace of its own. Nothing else writes to these resources.
//
// The room knows the scheduler only through two doors: Applier, which
// profile.Set is, and decision.Ledger.
package controllers

import (
	"context"
	"errors"

	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
)

// Applier is what the controllers ask of the profiles that run; *profile.Set
// is the one that counts. Calls for one name never overlap, calls for several
// do.
type Applier interface {
	// Try asks the Blueprint's plugins about real pods, and changes nothing.
	// The error is a *profile.TrialError when it should not run, a
	// *profile.BuildError when it cannot.
	Try(ctx context.Context, blueprint *compile.Blueprint) (profile.Trial, error)
	// Tried is the last trial of a name; false when there was none.
	LastTrial(name string) (profile.Trial, bool)
	// Apply builds the Blueprint and swaps it in. Where the same hash runs
	// already nothing is built. After an error, which is a
	// *profile.BuildError when a plugin could not be built, what ran before
	// still runs.
	Apply(ctx context.Context, blueprint *compile.Blueprint) error
	// Hold holds the pods of a name under which nothing runs, and tells them why. It
	// does nothing where something runs; what runs later releases them.
	Hold(name, why string)
	// Pause holds or releases the pods of a name, whether something runs
	// under that name yet or not.
	SetPaused(name string, paused bool)
	// Delete parks the pods of a name and forgets that it was paused.
	Delete(name string)
	// Running says what serves a name; false when nothing does.
	Running(name string) (profile.Running, bool)
	// WhenAilmentsChange has tell called with the names of profiles whose
	// plugins fare worse than before, or better. tell must not block.
	OnDegradedChange(tell func(name string))
}

// Options are what the controllers need from the rest of the house.
type Options struct {
	// Applier holds the profiles that run. Required.
	Applier Applier
	// Registry lists the plugins that specs may name. Required.
	Registry framework.Registry
	// Ledger is where the publisher reads decisions. Required.
	Ledger *decision.Ledger
	// Others are the schedulers beside Berth. The zero value knows of none, and refuses to
	// serve default-scheduler.
	OtherSchedulers OtherSchedulers
	// Gate, where it is not nil, is opened when this replica may take over.
	Readiness *ReadinessCheck
	// DefaultProfile names the profile that the leader creates while there is
	// none; empty for none.
	DefaultProfile string
	// History is where what ran is kept; nil for memory only.
	History *history.History
	// Crashes are what earlier processes of this container died of; CrashesNoted is
	// called once the revisions say so, and may be nil.
	Crashes         []history.Crash
	CrashesRecorded func()
	// Exports keeps what other programs read of the profiles; nil: nothing is
	// exported, and the condition says so.
	Exporter *export.Exporter
	// Version is Berth's own; it goes into every hash.
	Version string
	// Extenders says what extenders may do; the zero value allows none.
	Extenders compile.ExtenderPermissions
	// Clock tells the time in conditions and paces the publisher; nil for
	// the real one.
	Clock clock.Clock
	// Busy says whether pods are being bound, to which explanations yield; may be
	// nil.
	BindsInProgress func() bool
	// Desk is where explanations of pods wait to be written; nil: none are.
	Explanations *explain.Queue
	// Decisions is what SchedulingDecisions are written with, see
	// explainer.NewClient. Required with Desk.
	DecisionClient restclient.Interface
	// Pods holds every pod that has not ended, once PodsSynced says so. Required
	// with Desk.
	Pods       corelisters.PodLister
	PodsSynced func() bool
	// LastWords waits until nothing is scheduled any more, and returns the context
	// in which what was decided until then is still written; nil: nothing is
	// written once the manager ends.
	FinalWrites func() (context.Context, context.CancelFunc)
	// Recorder reports transitions of conditions as Events; nil for the
	// manager's own, under the name ReportingController.
	Recorder events.EventRecorder
}

// ReportingController is the name that the Events of this room carry.
const ReportingController = "berth.dev/controllers"

// SetupWithManager adds both reconcilers and the publisher to mgr. The CRDs
// must be served by then, since the caches are indexed here. The error names
// what is missing in o, or is the manager's.
//
// Every replica compiles and applies, so that a follower is warm when it
// becomes the leader; the leader alone writes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if err := o.setDefaults(mgr); err != nil {
		return err
	}
	if err := indexProfiles(mgr); err != nil {
		return err
	}
	status := &statusWriter{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: o.Recorder, clock: o.Clock,
	}
	profiles := &profileReconciler{
		reader: mgr.GetClient(), live: mgr.GetAPIReader(), status: status, elected: mgr.Elected(), compile: compile.Profile, options: o,
	}
	configs := &pluginConfigReconciler{
		reader: mgr.GetClient(), status: status, check: compile.Config, registry: o.Registry,
	}
	if o.Readiness == nil {
		o.Readiness = &ReadinessCheck{}
	}
	if o.DefaultProfile != "" {
		if err := mgr.Add(&defaultProfileCreator{
			name: o.DefaultProfile, profiles: mgr.GetClient(), live: mgr.GetAPIReader(), creator: mgr.GetClient(), clock: o.Clock,
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
		mgr.Add(newPublisher(mgr.GetClient(), mgr.GetAPIReader(), o)),
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
		return errors.New("controllers: Options.Desk needs Decisions, Pods and PodsSynced: the client that explanations are written with, and who is there to be explained")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.History == nil {
		o.History = history.New(history.Options{Clock: o.Clock})
	}
	if o.Recorder == nil {
		o.Recorder = mgr.GetEventRecorder(ReportingController)
	}
	return nil
}
