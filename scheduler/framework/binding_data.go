package framework

import (
	fwk "k8s.io/kube-scheduler/framework"
)

// bindingKey is where the binding room leaves BindingData for the Bind plugin.
const bindingDataKey fwk.StateKey = "berth.dev/binding"

// BindingData is what a Binding carries beyond the pod and the node. The API
// server merges the annotations into the pod in the same write, and refuses
// the write when the pod is no longer at the resource version.
type BindingData struct {
	// Annotations are put on the pod; nil for none.
	Annotations map[string]string
	// ResourceVersion is the newest one known of the pod; empty for no check.
	ResourceVersion string
}

// Clone returns d itself: it is written once and read once.
func (d *BindingData) Clone() fwk.StateData { return d }

// WriteBindingData leaves data in state for the Bind plugin.
func WriteBindingData(state fwk.CycleState, data *BindingData) { state.Write(bindingDataKey, data) }

// ReadBindingData returns what was left in state. Nothing left gives the zero
// value, with which a Binding is a plain one.
func ReadBindingData(state fwk.CycleState) BindingData {
	note, err := state.Read(bindingDataKey)
	if err != nil {
		return BindingData{}
	}
	if data, ok := note.(*BindingData); ok {
		return *data
	}
	return BindingData{}
}
