package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/berthdev/berth/api/v1alpha1"
)

// heldPodsThreshold is how many held pods of a profile make an Event on the profile.
// The condition PodScheduled of each pod reports fewer.
const heldPodsThreshold = 10

// heldPodsReporter makes one Event for each profile that has that many held pods, and
// another one only after it had none.
type heldPodsReporter struct {
	recorder events.EventRecorder
	reported map[string]bool
}

func (c *heldPodsReporter) observe(p *v1alpha1.SchedulingProfile, held int) {
	switch {
	case held == 0:
		delete(c.reported, p.Name)
	case held >= heldPodsThreshold && !c.reported[p.Name]:
		c.reported[p.Name] = true
		c.recorder.Eventf(p, nil, corev1.EventTypeWarning, "PodsHeld", "Scheduling",
			"%d pods of the profile are held; each pod's condition PodScheduled gives the reason, as fast as the rate limit of such writes allows", held)
	}
}

func (c *heldPodsReporter) forget(name string) { delete(c.reported, name) }
