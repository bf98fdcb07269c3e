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
	Setup func(d ProfileEditor)
	Apply func(d ProfileEditor)
	// Same says that the plugins which ran before run afterwards.
	KeepsGeneration bool
	// Untouched are the places, as the queue has them, whose pods the change is
	// not about: they sleep on, and are woken by what they wait for.
	Unaffected []queue.Place
}

// Spares says whether a pod that was in a place when the change came sleeps on.
func (c Change) KeepsWaiting(p Place) bool { return slices.Contains(c.Unaffected, p.Where) }

// The Visitor and the Newcomer make room, too: who comes or goes there may make
// a pod fit that fitted nowhere. No gate opens by it.
var (
	waitingForEvents = []queue.Place{queue.Gated, queue.Unschedulable}
	gated            = waitingForEvents[:1]
)

// Desk is where the profile's user writes. What is said to be refused must be,
// all else must run when a call returns.
type ProfileEditor interface {
	// Write changes the spec that the next edit sends.
	Stage(edit func(*Spec))
	// Edit sends what is written, changed by edit, which may be nil.
	Edit(edit func(*Spec))
	// EditInVain is Edit, which is refused.
	EditRejected(edit func(*Spec))
	// EditTwice is two edits, the second before the first is built.
	EditTwice(first, second func(*Spec))
	// Passing is Edit; what it made run is to run for a moment only.
	EditBriefly(edit func(*Spec))
	// EditConfig gives the PluginConfig other arguments; DeleteConfig deletes it.
	EditConfig(mark string)
	DeleteConfig()
	// Pause holds the profile's pods, and Forbid takes none of their namespace.
	Pause()
	DisallowNamespace()
	// Delete deletes the profile, and Create makes one of its name.
	Delete()
	Create(edit func(*Spec))
}

// Changes are what can come, by a sentence each.
var Changes = map[string]Change{
	"arguments change": {Apply: func(d ProfileEditor) { d.Edit(Mark("other")) }},
	"weights change": {Unaffected: waitingForEvents, Apply: func(d ProfileEditor) {
		d.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled[0].Weight = ptr.To[int32](5) })
	}},
	"a plugin is added": {Unaffected: gated, Apply: func(d ProfileEditor) { d.Edit(func(s *Spec) { Enable(&s.Plugins.MultiPoint, Added) }) }},
	"a plugin is removed": {Unaffected: gated, Apply: func(d ProfileEditor) {
		d.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled = s.Plugins.MultiPoint.Enabled[:1] })
	}},
	"the plugin that holds it is removed": {Apply: func(d ProfileEditor) {
		d.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled = s.Plugins.MultiPoint.Enabled[1:] })
	}},
	"another sort comes": {Unaffected: waitingForEvents, Apply: func(d ProfileEditor) { d.Edit(func(s *Spec) { s.Plugins.QueueSort.Enabled[0].Name = OtherSort }) }},
	"the backoff changes": {Unaffected: waitingForEvents, Apply: func(d ProfileEditor) {
		d.Edit(func(s *Spec) { s.Queue.InitialBackoffSeconds = ptr.To[int32](12) })
	}},
	"what is recorded changes": {Unaffected: waitingForEvents, Apply: func(d ProfileEditor) {
		d.Edit(func(s *Spec) { s.Decisions.TopScores = ptr.To[int32](7) })
	}},
	"how many nodes are looked at changes": {Unaffected: waitingForEvents, Apply: func(d ProfileEditor) {
		d.Edit(func(s *Spec) { s.PercentageOfNodesToScore = 50 })
	}},
	"its PluginConfig changes":    {Unaffected: gated, Apply: func(d ProfileEditor) { d.EditConfig("other") }},
	"its PluginConfig is deleted": {KeepsGeneration: true, Apply: ProfileEditor.DeleteConfig},
	"its namespace is forbidden":  {Apply: ProfileEditor.DisallowNamespace},
	"the profile is paused":       {KeepsGeneration: true, Apply: ProfileEditor.Pause},
	"the profile is deleted":      {Apply: ProfileEditor.Delete},
	"the profile is created anew": {Apply: func(d ProfileEditor) {
		d.Delete()
		d.Create(nil)
	}},
	"another profile takes its name": {Apply: func(d ProfileEditor) {
		d.Delete()
		d.Create(Mark("other"))
	}},
	"a broken edit is refused": {KeepsGeneration: true, Apply: func(d ProfileEditor) {
		d.EditRejected(func(s *Spec) { Enable(&s.Plugins.Filter, "NoSuchPlugin") })
	}},
	"a plugin cannot be built": {KeepsGeneration: true, Apply: func(d ProfileEditor) { d.EditRejected(Mark(BrokenArgument)) }},
	"two changes come at once": {Apply: func(d ProfileEditor) { d.EditTwice(Mark("first"), Mark("second")) }},
	"what ran before comes back": {
		Setup: func(d ProfileEditor) {
			d.Edit(Mark("other"))
			d.Stage(Mark(""))
		},
		Apply: func(d ProfileEditor) { d.Edit(Mark("other")) },
	},
	"a change is taken back": {Apply: func(d ProfileEditor) {
		d.EditBriefly(Mark("other"))
		d.Edit(Mark(""))
	}},
}

// Away is what became of a profile whose pods must wait.
type HoldState struct{ Paused, Deleted, NamespaceDisallowed bool }

// Holds is why they must, "" where they need not.
func (a HoldState) HoldReason() string {
	switch {
	case a.Deleted:
		return queue.ProfileDeleted
	case a.Paused:
		return queue.ProfilePaused
	case a.NamespaceDisallowed:
		return queue.NamespaceNotAllowed
	}
	return ""
}

// AllowAll takes pods of all namespaces.
func AllowAllNamespaces(s *Spec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesAll}
}

// ForbidAll takes pods of no namespace.
func DisallowAllNamespaces(s *Spec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{
		From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"nobody": "has-this"}},
	}
}
