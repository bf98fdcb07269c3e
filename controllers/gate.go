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
const gatePause = 2 * time.Second

// Gate keeps a replica unready until it has resolved every profile, and as
// long as it would refuse one that runs elsewhere: a rolling update to a
// version that lacks a plugin stops there, with the old leader at work. Once
// open it stays open: a later edit is no reason to take a replica away.
//
// The zero Gate is shut.
type Gate struct {
	mu   sync.Mutex
	open bool
	// why names the profiles, public says how many they are.
	why, public string
}

// Ready returns nil once the replica may take over. The error names no profile, since
// probes are answered to everybody.
func (g *Gate) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.open:
		return nil
	case g.why == "":
		return errors.New("the profiles have not been resolved yet")
	case fault.ProbesNameProfiles:
		return errors.New(g.why)
	}
	return errors.New(g.public)
}

// set opens the gate, for empty texts, or shuts it; news says that why is another one
// than before.
func (g *Gate) set(why, public string) (news bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	news = g.why != why
	g.open, g.why, g.public = why == "", why, public
	return news
}

// gatekeeper opens a Gate.
type gatekeeper struct {
	gate       *Gate
	reconciler *profileReconciler
	recorder   events.EventRecorder
	clock      clock.Clock
}

// NeedLeaderElection says that followers wait, too: above all they.
func (k *gatekeeper) NeedLeaderElection() bool { return false }

// Start looks at the profiles until none stands in the way, or ctx ends.
func (k *gatekeeper) Start(ctx context.Context) error {
	for {
		shut, err := k.look(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The profiles could not be read; this replica is not ready")
		}
		if err == nil && !shut {
			return nil
		}
		timer := k.clock.NewTimer(gatePause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// look resolves every profile, and says of those that it would refuse.
func (k *gatekeeper) look(ctx context.Context) (shut bool, err error) {
	var profiles v1alpha1.SchedulingProfileList
	if err := k.reconciler.reader.List(ctx, &profiles); err != nil {
		return true, err
	}
	var refused []string
	told := map[string]*v1alpha1.SchedulingProfile{}
	for i := range profiles.Items {
		p := &profiles.Items[i]
		configs, err := k.reconciler.gather(ctx, p)
		if err != nil {
			return true, err
		}
		if _, rejection := k.reconciler.resolve(p, configs); rejection != nil && runsAsWritten(p) {
			why := p.Name + ": " + rejection.Message()
			refused, told[why] = append(refused, why), p
		}
	}
	if len(refused) == 0 {
		k.gate.set("", "")
		return false, nil
	}
	slices.Sort(refused)
	version := "version " + k.reconciler.options.Version + " of Berth would refuse what runs"
	why := version + ": SchedulingProfile " + strings.Join(refused, "; SchedulingProfile ")
	public := fmt.Sprintf("%s of %d SchedulingProfiles; the log and Events on them say which, and why", version, len(refused))
	if k.gate.set(clip(why, maxMessage), public) {
		log.FromContext(ctx).Error(errors.New(why), "This replica is not ready")
		for why, p := range told {
			note := fmt.Sprintf("a replica of version %s is not ready, since it would refuse what runs: %s", k.reconciler.options.Version, why)
			k.recorder.Eventf(p, nil, corev1.EventTypeWarning, "ReplicaNotReady", "Start", "%s", clip(note, maxNote))
		}
	}
	return true, nil
}

// runsAsWritten says whether the leader runs this very spec.
func runsAsWritten(p *v1alpha1.SchedulingProfile) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionProgrammed))
	return c != nil && c.Status == "True" && c.ObservedGeneration == p.Generation
}
