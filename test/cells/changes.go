package cells

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/queue"
)

// Change is what comes to a profile.
type Change struct {
	// First is what the profile's user does before the pod comes; may be nil.
	First func(d Desk)
	Make  func(d Desk)
	// Same says that the plugins which ran before run afterwards.
	Same bool
	// Untouched are the places, as the queue has them, whose pods the change is
	// not about: they sleep on, and are woken by what they wait for.
	Untouched []queue.Place
}

// Spares says whether a pod that was in a place when the change came sleeps on.
func (c Change) Spares(p Place) bool { return slices.Contains(c.Untouched, p.Where) }

// The Visitor and the Newcomer make room, too: who comes or goes there may make
// a pod fit that fitted nowhere. No gate opens by it.
var (
	asleep    = []queue.Place{queue.Gated, queue.Unschedulable}
	gatedOnly = asleep[:1]
)

// Desk is where the profile's user writes. What is said to be refused must be,
// all else must run when a call returns.
type Desk interface {
	// Write changes the spec that the next edit sends.
	Write(edit func(*Spec))
	// Edit sends what is written, changed by edit, which may be nil.
	Edit(edit func(*Spec))
	// EditInVain is Edit, which is refused.
	EditInVain(edit func(*Spec))
	// EditTwice is two edits, the second before the first is built.
	EditTwice(first, second func(*Spec))
	// Passing is Edit; what it made run is to run for a moment only.
	Passing(edit func(*Spec))
	// EditConfig gives the PluginConfig other arguments; DeleteConfig deletes it.
	EditConfig(mark string)
	DeleteConfig()
	// Pause holds the profile's pods, and Forbid takes none of their namespace.
	Pause()
	Forbid()
	// Delete deletes the profile, and Create makes one of its name.
	Delete()
	Create(edit func(*Spec))
}

// Changes are what can come, by a sentence each.
var Changes = map[string]Change{
	"arguments change": {Make: func(d Desk) { d.Edit(Mark("other")) }},
	"weights change": {Untouched: asleep, Make: func(d Desk) {
		d.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled[0].Weight = ptr.To[int32](5) })
	}},
	"a plugin is added": {Untouched: gatedOnly, Make: func(d Desk) { d.Edit(func(s *Spec) { Enable(&s.Plugins.MultiPoint, Newcomer) }) }},
	"a plugin is removed": {Untouched: gatedOnly, Make: func(d Desk) {
		d.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled = s.Plugins.MultiPoint.Enabled[:1] })
	}},
	"the plugin that holds it is removed": {Make: func(d Desk) {
		d.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled = s.Plugins.MultiPoint.Enabled[1:] })
	}},
	"another sort comes": {Untouched: asleep, Make: func(d Desk) { d.Edit(func(s *Spec) { s.Plugins.QueueSort.Enabled[0].Name = SortsToo }) }},
	"the backoff changes": {Untouched: asleep, Make: func(d Desk) {
		d.Edit(func(s *Spec) { s.Queue.InitialBackoffSeconds = ptr.To[int32](12) })
	}},
	"what is recorded changes": {Untouched: asleep, Make: func(d Desk) {
		d.Edit(func(s *Spec) { s.Decisions.TopScores = ptr.To[int32](7) })
	}},
	"how many nodes are looked at changes": {Untouched: asleep, Make: func(d Desk) {
		d.Edit(func(s *Spec) { s.PercentageOfNodesToScore = 50 })
	}},
	"its PluginConfig changes":    {Untouched: gatedOnly, Make: func(d Desk) { d.EditConfig("other") }},
	"its PluginConfig is deleted": {Same: true, Make: Desk.DeleteConfig},
	"its namespace is forbidden":  {Make: Desk.Forbid},
	"the profile is paused":       {Same: true, Make: Desk.Pause},
	"the profile is deleted":      {Make: Desk.Delete},
	"the profile is created anew": {Make: func(d Desk) {
		d.Delete()
		d.Create(nil)
	}},
	"another profile takes its name": {Make: func(d Desk) {
		d.Delete()
		d.Create(Mark("other"))
	}},
	"a broken edit is refused": {Same: true, Make: func(d Desk) {
		d.EditInVain(func(s *Spec) { Enable(&s.Plugins.Filter, "NoSuchPlugin") })
	}},
	"a plugin cannot be built": {Same: true, Make: func(d Desk) { d.EditInVain(Mark(Broken)) }},
	"two changes come at once": {Make: func(d Desk) { d.EditTwice(Mark("first"), Mark("second")) }},
	"what ran before comes back": {
		First: func(d Desk) {
			d.Edit(Mark("other"))
			d.Write(Mark(""))
		},
		Make: func(d Desk) { d.Edit(Mark("other")) },
	},
	"a change is taken back": {Make: func(d Desk) {
		d.Passing(Mark("other"))
		d.Edit(Mark(""))
	}},
}

// Away is what became of a profile whose pods must wait.
type Away struct{ Paused, Gone, Forbidden bool }

// Holds is why they must, "" where they need not.
func (a Away) Holds() string {
	switch {
	case a.Gone:
		return queue.ProfileDeleted
	case a.Paused:
		return queue.ProfilePaused
	case a.Forbidden:
		return queue.NamespaceNotAllowed
	}
	return ""
}

// AllowAll takes pods of all namespaces.
func AllowAll(s *Spec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesAll}
}

// ForbidAll takes pods of no namespace.
func ForbidAll(s *Spec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{
		From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"nobody": "has-this"}},
	}
}
