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
	"github.com/berthdev/berth/scheduler/fault"
)

// gatePause is how often a replica that is not ready looks at the profiles.
const readinessPollInterval = 2 * time.Second

// Gate keeps a replica unready until it has resolved every profile, and as
// long as it would refuse one that runs elsewhere: a rolling update to a
// version that lacks a plugin stops there, with the old leader at work. Once
// open it stays open: a later edit is no reason to take a replica away.
//
// The zero Gate is shut.
type ReadinessCheck struct {
	mu     sync.Mutex
	passed bool
	// why names the profiles, public says how many they are.
	reason, publicReason string
}

// Ready returns nil once the replica may take over. The error names no profile, since
// probes are answered to everybody.
func (g *ReadinessCheck) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.passed:
		return nil
	case g.reason == "":
		return errors.New("the profiles have not been resolved yet")
	case fault.ProbesNameProfiles:
		return errors.New(g.reason)
	}
	return errors.New(g.publicReason)
}

// set opens the gate, for empty texts, or shuts it; news says that why is another one
// than before.
func (g *ReadinessCheck) set(why, public string) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	news = g.reason != why
	g.passed, g.reason, g.publicReason = why == "", why, public
	return news
}

// gatekeeper opens a Gate.
type readinessChecker struct {
	check      *ReadinessCheck
	reconciler *profileReconciler
	recorder   events.EventRecorder
	clock      clock.Clock
}

// NeedLeaderElection says that followers wait, too: above all they.
func (k *readinessChecker) NeedLeaderElection() bool { return false }

// Start looks at the profiles until none stands in the way, or ctx ends.
func (k *readinessChecker) Start(ctx context.Context) error {
	for {
		shut, err := k.checkProfiles(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The profiles could not be read; this replica is not ready")
		}
		if err == nil && !shut {
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

// look resolves every profile, and says of those that it would refuse.
func (k *readinessChecker) checkProfiles(ctx context.Context) (shut bool, err error) {
	var profiles v1alpha1.SchedulingProfileList
	if err := k.reconciler.reader.List(ctx, &profiles); err != nil {
		return true, err
	}
	var refused []string
	told := map[string]*v1alpha1.SchedulingProfile{}
	for i := range profiles.Items {
		p := &profiles.Items[i]
		configs, err := k.reconciler.getPluginConfigs(ctx, p)
		if err != nil {
			return true, err
		}
		if _, rejection := k.reconciler.compileProfile(p, configs); rejection != nil && isProgrammed(p) {
			why := p.Name + ": " + rejection.Message()
			refused, told[why] = append(refused, why), p
		}
	}
	if len(refused) == 0 {
		k.check.set("", "")
		return false, nil
	}
	slices.Sort(refused)
	version := "version " + k.reconciler.options.Version + " of Berth would refuse what runs"
	why := version + ": SchedulingProfile " + strings.Join(refused, "; SchedulingProfile ")
	public := fmt.Sprintf("%s of %d SchedulingProfiles; the log and Events on them say which, and why", version, len(refused))
	if k.check.set(truncate(why, maxMessage), public) {
		log.FromContext(ctx).Error(errors.New(why), "This replica is not ready")
		for why, p := range told {
			note := fmt.Sprintf("a replica of version %s is not ready, since it would refuse what runs: %s", k.reconciler.options.Version, why)
			k.recorder.Eventf(p, nil, corev1.EventTypeWarning, "ReplicaNotReady", "Start", "%s", truncate(note, maxEventNote))
		}
	}
	return true, nil
}

// runsAsWritten says whether the leader runs this very spec.
func isProgrammed(p *v1alpha1.SchedulingProfile) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
	return c != nil && c.Status == "True" && c.ObservedGeneration == p.Generation
}
