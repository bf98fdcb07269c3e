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
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// notingPatience is for how long the crashes of earlier processes are tried to be
// noted, after the first failure, before profiles are run all the same.
const recordCrashesTimeout = 10 * time.Second

// crashNotes is what is left to note of processes that crashed in this container.
type crashRecords struct {
	mu sync.Mutex
	// failed is when noting failed first; zero: it did not.
	firstFailure time.Time
	done         bool
}

// noteCrashes marks the revisions that are to blame for the crashes of earlier
// processes, before anything is built. A replica that follows does so too, since it
// alone knows. It returns an error where a later try may end better.
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
			if now.Sub(r.crashes.firstFailure) < recordCrashesTimeout && !fault.CrashNotesHurried {
				return err
			}
			log.FromContext(ctx).Error(err, "The crash of an earlier process could not be noted; profiles are run all the same", "reason", c.Reason)
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

// runs are the plugins that a stored profile runs under this version.
func (r *profileReconciler) storedPlugins(p *v1alpha1.SchedulingProfile) []string {
	b, _ := r.compileProfile(p, nil)
	if b == nil {
		return nil
	}
	return pluginNames(b)
}

// pluginNames are the plugins of a Blueprint, each once, in order.
func pluginNames(b *compile.Blueprint) []string {
	var names []string
	for _, point := range framework.Points {
		for _, entry := range b.Chains[point] {
			names = append(names, entry.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// rebuildIn is how long a blamed revision that nothing replaces is to wait: until
// it is due, and until all other profiles were built by this process. 0: no longer.
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
		if _, visited := r.reconciled.Load(profiles.Items[i].Name); profiles.Items[i].Name != name && !visited {
			return retryInterval
		}
	}
	return 0
}
