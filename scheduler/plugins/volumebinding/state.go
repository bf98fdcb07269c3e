package volumebinding

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const stateKey fwk.StateKey = Name

// stateData holds the claims of the pod and the results of earlier extension points.
type stateData struct {
	claims *podClaims

	mu sync.Mutex
	// planByNode has a plan for each node that Filter accepted; mu guards it.
	planByNode map[string]*plan
	// assumed is what Reserve assumed; nil before that, or if nothing had to be
	// assumed.
	assumed framework.VolumeHold
	// needsBinding is true if PreBind has to bind claims.
	needsBinding bool
}

// Clone returns the value itself: a plan for a node does not depend on other pods.
func (n *stateData) Clone() fwk.StateData { return n }

// plan says how the unbound claims of a pod are bound on a node.
type plan struct {
	bindings   []binding
	provisions []provision
}

// binding is a claim and the volume that it is to be bound to.
type binding struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
}

// provision is a claim for which a volume is to be provisioned. capacity is the storage
// capacity to be used; nil if the driver does not publish it.
type provision struct {
	claim    *v1.PersistentVolumeClaim
	capacity *storagev1.CSIStorageCapacity
}

// setPlan stores the plan for a node.
func (n *stateData) setPlan(node string, p *plan) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.planByNode[node] = p
}

// planFor returns the plan for a node; nil if there is none.
func (n *stateData) planFor(node string) *plan {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.planByNode[node]
}

// getStateData returns what PreFilter stored; nil for a pod without claims. It returns
// an error in a profile that does not enable PreFilter.
func getStateData(state fwk.CycleState) (*stateData, error) {
	return framework.ReadStateData[*stateData](state, stateKey, Name, "PreFilter")
}
