package decision

import "k8s.io/apimachinery/pkg/types"

// Explanation is why one pod waits, or where it went: what its
// SchedulingDecision will say. It is a value: nobody changes one after it was
// given away.
type Explanation struct {
	Namespace, Pod string
	UID            types.UID
	// Status names nodes whether or not the tenant may read them; whoever writes
	// it leaves out what the profile's detail does not allow, see Nodes.
	Status Status
	// Nodes says whether the SchedulingDecision may name nodes.
	Nodes bool
}
