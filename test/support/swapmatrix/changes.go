package swapmatrix

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/queue"
)

// Change is a change of a profile.
type Change struct {
	// Setup is what the user does before the pod is created; may be nil.
	Setup func(e ProfileEditor)
	Apply func(e ProfileEditor)
	// KeepsGeneration says that the same generation runs before and after the change.
	KeepsGeneration bool
	// Unaffected are the places in the queue whose pods the change does not concern: they
	// stay there until the event for which they wait.
	Unaffected []queue.Place
}

// KeepsWaiting reports whether a pod in a place stays there after the change.
func (c Change) KeepsWaiting(p Place) bool { return slices.Contains(c.Unaffected, p.Where) }

// Referenced and Added have a PostFilter as well, so adding or removing one may let a pod fit
// that fit on no node. It does not affect gated pods.
var (
	waitingForEvents = []queue.Place{queue.Gated, queue.Unschedulable}
	gated            = waitingForEvents[:1]
)

// ProfileEditor makes the changes of a user. When a method returns, the new spec runs, or is
// rejected where the method says so.
type ProfileEditor interface {
	// Stage changes the spec that the next Edit sends.
	Stage(edit func(*Spec))
	// Edit sends the staged spec, changed by edit, which may be nil.
	Edit(edit func(*Spec))
	// EditRejected is an Edit that is rejected.
	EditRejected(edit func(*Spec))
	// EditTwice makes two edits, the second before the first is built.
	EditTwice(first, second func(*Spec))
	// EditBriefly is an Edit that is soon replaced.
	EditBriefly(edit func(*Spec))
	// EditConfig changes the arguments of the PluginConfig; DeleteConfig deletes it.
	EditConfig(mark string)
	DeleteConfig()
	// Pause pauses the profile. DisallowNamespace no longer allows the pod's namespace.
	Pause()
	DisallowNamespace()
	// Delete deletes the profile, and Create creates one of its name.
	Delete()
	Create(edit func(*Spec))
}

// Changes are the changes by name. test/integration/scenarios/swap selects cells by the order of the names.
var Changes = map[string]Change{
	"arguments change": {Apply: func(e ProfileEditor) { e.Edit(Mark("other")) }},
	"weights change": {Unaffected: waitingForEvents, Apply: func(e ProfileEditor) {
		e.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled[0].Weight = ptr.To[int32](5) })
	}},
	"a plugin is added": {Unaffected: gated, Apply: func(e ProfileEditor) { e.Edit(func(s *Spec) { Enable(&s.Plugins.MultiPoint, Added) }) }},
	"a plugin is removed": {Unaffected: gated, Apply: func(e ProfileEditor) {
		e.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled = s.Plugins.MultiPoint.Enabled[:1] })
	}},
	"the plugin that rejects it is removed": {Apply: func(e ProfileEditor) {
		e.Edit(func(s *Spec) { s.Plugins.MultiPoint.Enabled = s.Plugins.MultiPoint.Enabled[1:] })
	}},
	"another queue sort": {Unaffected: waitingForEvents, Apply: func(e ProfileEditor) { e.Edit(func(s *Spec) { s.Plugins.QueueSort.Enabled[0].Name = OtherSort }) }},
	"the backoff changes": {Unaffected: waitingForEvents, Apply: func(e ProfileEditor) {
		e.Edit(func(s *Spec) { s.Queue.InitialBackoffSeconds = ptr.To[int32](12) })
	}},
	"what is recorded changes": {Unaffected: waitingForEvents, Apply: func(e ProfileEditor) {
		e.Edit(func(s *Spec) { s.Decisions.TopScores = ptr.To[int32](7) })
	}},
	"how many nodes are scored changes": {Unaffected: waitingForEvents, Apply: func(e ProfileEditor) {
		e.Edit(func(s *Spec) { s.PercentageOfNodesToScore = 50 })
	}},
	"its PluginConfig changes":    {Unaffected: gated, Apply: func(e ProfileEditor) { e.EditConfig("other") }},
	"its PluginConfig is deleted": {KeepsGeneration: true, Apply: ProfileEditor.DeleteConfig},
	"its namespace is disallowed": {Apply: ProfileEditor.DisallowNamespace},
	"the profile is paused":       {KeepsGeneration: true, Apply: ProfileEditor.Pause},
	"the profile is deleted":      {Apply: ProfileEditor.Delete},
	"the profile is created again": {Apply: func(e ProfileEditor) {
		e.Delete()
		e.Create(nil)
	}},
	"another profile takes its name": {Apply: func(e ProfileEditor) {
		e.Delete()
		e.Create(Mark("other"))
	}},
	"a broken edit is rejected": {KeepsGeneration: true, Apply: func(e ProfileEditor) {
		e.EditRejected(func(s *Spec) { Enable(&s.Plugins.Filter, "NoSuchPlugin") })
	}},
	"a plugin cannot be built": {KeepsGeneration: true, Apply: func(e ProfileEditor) { e.EditRejected(Mark(BrokenArgument)) }},
	"two changes at once":      {Apply: func(e ProfileEditor) { e.EditTwice(Mark("first"), Mark("second")) }},
	"what ran before is restored": {
		Setup: func(e ProfileEditor) {
			e.Edit(Mark("other"))
			e.Stage(Mark(""))
		},
		Apply: func(e ProfileEditor) { e.Edit(Mark("other")) },
	},
	"a change is reverted": {Apply: func(e ProfileEditor) {
		e.EditBriefly(Mark("other"))
		e.Edit(Mark(""))
	}},
}

// HoldState says why the pods of a profile are held.
type HoldState struct{ Paused, Deleted, NamespaceDisallowed bool }

// HoldReason returns the reason, "" if the pods are not held.
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

// AllowAllNamespaces allows all namespaces.
func AllowAllNamespaces(s *Spec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesAll}
}

// DisallowAllNamespaces allows no namespace.
func DisallowAllNamespaces(s *Spec) {
	s.AllowedNamespaces = v1alpha1.AllowedNamespaces{
		From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"no-namespace": "has-this"}},
	}
}
