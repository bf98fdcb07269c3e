package volumebinding

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const stateKey fwk.StateKey = Name

// note is what one point of an attempt tells the next.
type stateData struct {
	claims *podClaims

	mu sync.Mutex
	// plans are by node, for those that fit.
	planByNode map[string]*plan
	// hold is what was assumed; nil where nothing had to be, or was not yet.
	assumed framework.VolumeHold
	// unbound says that PreBind has to bind claims.
	needsBinding bool
}

// Clone returns the same note: what a plan says about a node is good whoever
// else is there.
func (n *stateData) Clone() fwk.StateData { return n }

// plan is how a pod's unbound claims would be served on a node.
type plan struct {
	bindings   []binding
	provisions []provision
}

// binding is a claim and the volume that it would be bound to.
type binding struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// provision is a claim for which a volume would be made. capacity is where there
// is room for it; nil where nobody says how much room there is.
type provision struct {
	claim    *v1.PersistentVolumeClaim
	capacity *storagev1.CSIStorageCapacity
}

func (n *stateData) setPlan(node string, p *plan) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.planByNode[node] = p
}

func (n *stateData) planFor(node string) *plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.planByNode[node]
}

// noteOf returns what PreFilter noted. It is nil for a pod without claims. In a
// profile that does not ask PreFilter nothing was noted of any pod.
func getStateData(state fwk.CycleState) (*stateData, error) {
	return framework.ReadStateData[*stateData](state, stateKey, Name, "PreFilter")
}
