package framework

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	fwk "k8s.io/kube-scheduler/framework"
)

// Resource is an amount of everything the scheduler counts. The zero value is
// nothing at all.
type Resource struct {
	// MilliCPU is in thousandths of a core.
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
	// EphemeralStorage is in bytes.
	EphemeralStorage int64
	// AllowedPodNumber is how many pods a node takes; 0 in a pod's requests.
	AllowedPodNumber int
	// ScalarResources holds extended resources, huge pages and attachable
	// volumes in whole units; nil while there are none.
	ScalarResources map[v1.ResourceName]int64
}

var _ fwk.Resource = (*Resource)(nil)

// NewResource returns the amounts in list.
func NewResource(list v1.ResourceList) Resource {
	var r Resource
	r.Add(list)
	return r
}

// GetMilliCPU returns thousandths of a core.
func (r *Resource) GetMilliCPU() int64 { return r.MilliCPU }

// GetMemory returns bytes.
func (r *Resource) GetMemory() int64 { return r.Memory }

// GetEphemeralStorage returns bytes.
func (r *Resource) GetEphemeralStorage() int64 { return r.EphemeralStorage }

// GetAllowedPodNumber returns a count of pods.
func (r *Resource) GetAllowedPodNumber() int { return r.AllowedPodNumber }

// GetScalarResources returns the live map, nil while it is empty; callers read it only.
func (r *Resource) GetScalarResources() map[v1.ResourceName]int64 { return r.ScalarResources }

// Add adds list. Names that are neither built in nor scalar are left out, as
// nothing schedules by them.
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

// SetMaxResource raises each amount to the one in list where that is larger.
// The number of pods is no request and stays as it is.
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

// Clone returns a copy that shares nothing with r.
func (r *Resource) Clone() Resource {
	clone := *r
	clone.ScalarResources = maps.Clone(r.ScalarResources)
	return clone
}

// Sum adds what a pod requests.
func (r *Resource) AddRequest(request *Resource) { r.addSigned(request, 1) }

// shift adds sign times what a pod requests. Entries that reach zero stay: a
// map that shrinks and grows with every pod would cost more than it saves.
func (r *Resource) addSigned(request fwk.Resource, sign int64) {
	r.MilliCPU += sign * request.GetMilliCPU()
	r.Memory += sign * request.GetMemory()
	r.EphemeralStorage += sign * request.GetEphemeralStorage()
	for name, quantity := range request.GetScalarResources() {
		r.AddScalar(name, sign*quantity)
	}
}

// IsExtendedResourceName reports whether name is a vendor's resource: it has a
// domain that is not kubernetes.io's, and quota could name it too. The rule is
// that of k8s.io/kubernetes/pkg/apis/core/v1/helper.
func IsExtendedResourceName(name v1.ResourceName) bool {
	text := string(name)
	if !strings.Contains(text, "/") ||
		strings.Contains(text, v1.ResourceDefaultNamespacePrefix) ||
		strings.HasPrefix(text, v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+text)) == 0
}

// IsScalarResourceName reports whether name is counted in ScalarResources:
// extended resources, huge pages, attachable volumes and whatever is written
// with the kubernetes.io/ prefix (k8s.io/kubernetes/pkg/scheduler/util).
func IsScalarResourceName(name v1.ResourceName) bool {
	text := string(name)
	return strings.HasPrefix(text, v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(text, v1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(text, v1.ResourceDefaultNamespacePrefix) ||
		IsExtendedResourceName(name)
}
