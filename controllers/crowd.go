package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/berthdev/berth/api/v1alpha1"
)

// crowd is how many held pods are worth an Event on their profile: fewer are
// each told in their own status.
const heldPodsThreshold = 10

// crowds tells of each profile once that many of its pods are held, and again
// only after none was.
type heldPodsReporter struct {
	recorder events.EventRecorder
	reported map[string]bool
}

func (c *heldPodsReporter) observe(p *v1alpha1.SchedulingProfile, parked int) {
	switch {
	case parked == 0:
		delete(c.reported, p.Name)
	case parked >= heldPodsThreshold && !c.reported[p.Name]:
		c.reported[p.Name] = true
		c.recorder.Eventf(p, nil, corev1.EventTypeWarning, "PodsHeld", "Scheduling",
			"%d pods of the profile are held for another reason than room; each pod's condition PodScheduled says why, within a budget a second", parked)
	}
}

func (c *heldPodsReporter) forget(name string) { delete(c.reported, name) }
