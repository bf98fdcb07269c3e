package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
)

// readinessPollInterval is how often a replica that is not ready checks the profiles.
const readinessPollInterval = 2 * time.Second

// ReadinessCheck fails until this replica has compiled every profile and would reject
// none that runs elsewhere: a rolling update to a version that lacks a plugin stops
// there, and the old leader keeps running. Once passed it stays passed: a later edit
// does not make a replica unready.
//
// The zero ReadinessCheck fails. It is safe for concurrent use.
type ReadinessCheck struct {
	mu     sync.Mutex
	passed bool
	// reason names the profiles, publicReason only counts them.
	reason, publicReason string
}

// Ready returns nil once this replica may become the leader. The error names no
// profile, since anybody may read the probes.
func (c *ReadinessCheck) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.passed:
		return nil
	case c.reason == "":
		return errors.New("the profiles have not been compiled yet")
	}
	return errors.New(c.publicReason)
}

// set passes the check, for empty texts, or fails it. It reports whether the reason
// changed.
func (c *ReadinessCheck) set(reason, publicReason string) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.reason != reason
	c.passed, c.reason, c.publicReason = reason == "", reason, publicReason
	return changed
}

// readinessChecker runs until its ReadinessCheck passes.
type readinessChecker struct {
	check      *ReadinessCheck
	reconciler *profileReconciler
	recorder   events.EventRecorder
	clock      clock.Clock
}

// NeedLeaderElection returns false: followers check the profiles too.
func (k *readinessChecker) NeedLeaderElection() bool { return false }

// Start checks the profiles until they pass or ctx ends.
func (k *readinessChecker) Start(ctx context.Context) error {
	for {
		failed, err := k.checkProfiles(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The profiles could not be read; this replica is not ready")
		}
		if err == nil && !failed {
			return nil
		}
		timer := k.clock.NewTimer(readinessPollInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// checkProfiles compiles every profile, and reports those that run elsewhere and that
// this replica would reject: in the log, and as Events on them.
func (k *readinessChecker) checkProfiles(ctx context.Context) (failed bool, err error) {
	var profiles v1alpha1.SchedulingProfileList
	if err := k.reconciler.reader.List(ctx, &profiles); err != nil {
		return true, err
	}
	var rejected []string
	byReason := map[string]*v1alpha1.SchedulingProfile{}
	for i := range profiles.Items {
		p := &profiles.Items[i]
		configs, err := getPluginConfigs(ctx, k.reconciler.reader, p)
		if err != nil {
			return true, err
		}
		if _, rejection := k.reconciler.compileProfile(p, configs); rejection != nil && isProgrammed(p) {
			reason := p.Name + ": " + rejection.Message()
			rejected, byReason[reason] = append(rejected, reason), p
		}
	}
	if len(rejected) == 0 {
		k.check.set("", "")
		return false, nil
	}
	slices.Sort(rejected)
	version := "version " + k.reconciler.options.Version + " of Berth would refuse what runs"
	reason := version + ": SchedulingProfile " + strings.Join(rejected, "; SchedulingProfile ")
	publicReason := fmt.Sprintf("%s of %d SchedulingProfiles; the log and Events on them say which, and why", version, len(rejected))
	if k.check.set(truncate(reason, maxMessage), publicReason) {
		log.FromContext(ctx).Error(errors.New(reason), "This replica is not ready")
		for reason, p := range byReason {
			note := fmt.Sprintf("a replica of version %s is not ready, since it would refuse what runs: %s", k.reconciler.options.Version, reason)
			k.recorder.Eventf(p, nil, corev1.EventTypeWarning, "ReplicaNotReady", "Start", "%s", truncate(note, maxEventNote))
		}
	}
	return true, nil
}

// isProgrammed reports whether the leader runs this generation of the spec, by the
// profile's status.
func isProgrammed(p *v1alpha1.SchedulingProfile) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
	return c != nil && c.Status == "True" && c.ObservedGeneration == p.Generation
}
