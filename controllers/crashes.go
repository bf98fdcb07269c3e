package controllers

import (
	"context"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
)

// recordCrashesTimeout is how long recording the crashes of earlier processes is
// retried after its first failure, before profiles are applied without it.
const recordCrashesTimeout = 10 * time.Second

// crashRecords is the progress of recording the crashes of earlier processes of this
// container.
type crashRecords struct {
	mu sync.Mutex
	// firstFailure is when recording failed first; zero when it did not.
	firstFailure time.Time
	done         bool
}

// recordCrashes marks the revisions that are to blame for the crashes of earlier
// processes of this container, before anything is built. A follower does so too, since
// only it has the reports of its container. An error means that a later attempt may
// succeed.
func (r *profileReconciler) recordCrashes(ctx context.Context) error {
	r.crashes.mu.Lock()
	defer r.crashes.mu.Unlock()
	if r.crashes.done || len(r.options.Crashes) == 0 {
		return nil
	}
	for _, c := range r.options.Crashes {
		blamed, err := r.options.History.RecordCrash(ctx, c, r.storedPlugins)
		if err != nil {
			now := r.options.Clock.Now()
			if r.crashes.firstFailure.IsZero() {
				r.crashes.firstFailure = now
			}
			if now.Sub(r.crashes.firstFailure) < recordCrashesTimeout {
				return err
			}
			log.FromContext(ctx).Error(err, "The crash of an earlier process could not be recorded; profiles are applied without it", "reason", c.Reason)
			r.crashes.done = true
			return nil
		}
		log.FromContext(ctx).Info("An earlier process of this container crashed",
			"process", c.Process, "time", c.Time, "reason", c.Reason, "plugins", c.Plugins, "blamed", blamed)
	}
	r.crashes.done = true
	if r.options.CrashesRecorded != nil {
		r.options.CrashesRecorded()
	}
	return nil
}

// storedPlugins returns the plugins that a stored profile runs when this version
// compiles it; nil when it does not compile.
func (r *profileReconciler) storedPlugins(p *v1alpha1.SchedulingProfile) []string {
	b, _ := r.compileProfile(p, nil)
	if b == nil {
		return nil
	}
	return pluginNames(b)
}

// pluginNames returns the plugins of a Blueprint, each once, sorted.
func pluginNames(b *compile.Blueprint) []string {
	var names []string
	for _, entry := range b.Chains.All() {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rebuildDelay returns how long a blamed revision that nothing can replace has to wait:
// until its rebuild is due, and until this process has reconciled all other profiles. 0
// means that it may be built now.
func (r *profileReconciler) rebuildDelay(ctx context.Context, name string, evidence *history.Evidence) time.Duration {
	if wait := evidence.NotBefore.Sub(r.options.Clock.Now()); wait > 0 {
		return wait
	}
	var profiles v1alpha1.SchedulingProfileList
	if err := r.reader.List(ctx, &profiles); err != nil {
		log.FromContext(ctx).Error(err, "Profiles could not be listed; a blamed revision is not built yet")
		return retryInterval
	}
	for i := range profiles.Items {
		if _, reconciled := r.reconciled.Load(profiles.Items[i].Name); profiles.Items[i].Name != name && !reconciled {
			return retryInterval
		}
	}
	return 0
}
