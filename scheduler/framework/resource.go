package framework

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	fwk "k8s.io/kube-scheduler/framework"
)

// Resource is an amount of each resource. The zero value is zero of each.
type Resource struct {
	// MilliCPU is in millicores.
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
	// EphemeralStorage is in bytes.
	EphemeralStorage int64
	// AllowedPodNumber is the number of pods that a node allows; 0 in requests.
	AllowedPodNumber int
	// ScalarResources are extended resources, huge pages and attachable volumes
	// in whole units; nil if there are none.
	ScalarResources map[v1.ResourceName]int64
}

var _ fwk.Resource = (*Resource)(nil)

// NewResource returns the amounts in list.
func NewResource(list v1.ResourceList) Resource {
	var r Resource
	r.Add(list)
	return r
}

func (r *Resource) GetMilliCPU() int64         { return r.MilliCPU }
func (r *Resource) GetMemory() int64           { return r.Memory }
func (r *Resource) GetEphemeralStorage() int64 { return r.EphemeralStorage }
func (r *Resource) GetAllowedPodNumber() int   { return r.AllowedPodNumber }

// GetScalarResources returns the map itself, which the caller must not change;
// nil if it is empty.
func (r *Resource) GetScalarResources() map[v1.ResourceName]int64 { return r.ScalarResources }

// Add adds list, without resources that are neither native nor scalar: they
// have no effect on scheduling.
func (r *Resource) Add(list v1.ResourceList) {
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU += quantity.MilliValue()
		case v1.ResourceMemory:
			r.Memory += quantity.Value()
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage += quantity.Value()
		case v1.ResourcePods:
			r.AllowedPodNumber += int(quantity.Value())
		default:
			if IsScalarResourceName(name) {
				r.AddScalar(name, quantity.Value())
			}
		}
	}
}

// AddScalar adds quantity, in whole units, to one scalar resource.
func (r *Resource) AddScalar(name v1.ResourceName, quantity int64) {
	if r.ScalarResources == nil {
		r.ScalarResources = make(map[v1.ResourceName]int64, 1)
	}
	r.ScalarResources[name] += quantity
}

// SetMaxResource raises each amount to that in list if it is larger. The number
// of pods is not a request and stays.
func (r *Resource) SetMaxResource(list v1.ResourceList) {
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = max(r.MilliCPU, quantity.MilliValue())
		case v1.ResourceMemory:
			r.Memory = max(r.Memory, quantity.Value())
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage = max(r.EphemeralStorage, quantity.Value())
		default:
			if IsScalarResourceName(name) {
				have := r.ScalarResources[name]
				r.AddScalar(name, max(have, quantity.Value())-have)
			}
		}
	}
}

// Clone returns a deep copy.
func (r *Resource) Clone() Resource {
	clone := *r
	clone.ScalarResources = maps.Clone(r.ScalarResources)
	return clone
}

// AddRequest adds the requests of a pod.
func (r *Resource) AddRequest(request *Resource) { r.addSigned(request, 1) }

// addSigned adds sign times request. Entries that become zero stay, because a
// map that shrinks and grows with every pod costs more than it saves.
func (r *Resource) addSigned(request fwk.Resource, sign int64) {
	r.MilliCPU += sign * request.GetMilliCPU()
	r.Memory += sign * request.GetMemory()
	r.EphemeralStorage += sign * request.GetEphemeralStorage()
	for name, quantity := range request.GetScalarResources() {
		r.AddScalar(name, sign*quantity)
	}
}

// IsExtendedResourceName reports whether name is an extended resource: it has a
// domain other than kubernetes.io, and is valid in a quota. The rule is that of
// k8s.io/kubernetes/pkg/apis/core/v1/helper.
func IsExtendedResourceName(name v1.ResourceName) bool {
	text := string(name)
	if !strings.Contains(text, "/") ||
		strings.Contains(text, v1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(text, v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+text)) == 0
}

// IsScalarResourceName reports whether ScalarResources holds name: extended
// resources, huge pages, attachable volumes and all names with kubernetes.io/
// (k8s.io/kubernetes/pkg/scheduler/util).
func IsScalarResourceName(name v1.ResourceName) bool {
	text := string(name)
	return strings.HasPrefix(text, v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(text, v1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(text, v1.ResourceDefaultNamespacePrefix) ||
		IsExtendedResourceName(name)
}
