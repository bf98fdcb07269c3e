package devices

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	fwk "k8s.io/kube-scheduler/framework"
)

// Served are the kinds of resource.k8s.io/v1 that the API server serves. The zero value
// is none: no claim can exist, and no device is allocated.
type Served struct {
	// Devices says that ResourceClaims, ResourceSlices and DeviceClasses are served.
	Devices bool
	// Rules says that DeviceTaintRules are served, from Kubernetes 1.37 on.
	Rules bool
	// ExtendedResources says that DeviceClasses can back extended resources, from
	// Kubernetes 1.36 on. An older API server does not store in a pod's status which
	// claim has its devices.
	ExtendedResources bool
}

// AllServed returns all kinds, for callers that provide their own informers.
func AllServed() Served { return Served{Devices: true, Rules: true, ExtendedResources: true} }

// Discover asks the API server which kinds it serves, and its version. It returns the error of discovery.
func Discover(server discovery.DiscoveryInterface) (Served, error) {
	list, err := server.ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return Served{}, nil
	}
	if err != nil {
		return Served{}, err
	}
	serves := func(plural string) bool {
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
	}
	version, err := server.ServerVersion()
	if err != nil {
		return Served{}, err
	}
	return Served{
		Devices: serves("resourceclaims") && serves("resourceslices") && serves("deviceclasses"),
		Rules:   serves("devicetaintrules"),

		ExtendedResources: isAtLeast(version.GitVersion, extendedResourcesSince),
	}, nil
}

// extendedResourcesSince is the first version in which DRAExtendedResource is on by default.
var extendedResourcesSince = utilversion.MustParseGeneric("1.36")

// isAtLeast reports whether a version is not older than another. A version that cannot be
// read is not.
func isAtLeast(version string, than *utilversion.Version) bool {
	parsed, err := utilversion.ParseGeneric(version)
	return err == nil && parsed.AtLeast(than)
}

var (
	deviceKinds = []runtime.Object{&resourceapi.ResourceClaim{}, &resourceapi.ResourceSlice{}, &resourceapi.DeviceClass{}}
	ruleKinds   = []runtime.Object{&resourceapi.DeviceTaintRule{}}
)

// EventResources are the resources of the events that Devices passes to the queue.
func EventResources() []fwk.EventResource {
	return []fwk.EventResource{fwk.ResourceClaim, fwk.ResourceSlice, fwk.DeviceClass}
}

// Kinds returns the kinds that Devices watches, each as an empty object.
func (s Served) Kinds() (kinds []runtime.Object) {
	if s.Devices {
		kinds = append(kinds, deviceKinds...)
	}
	if s.Devices && s.Rules {
		kinds = append(kinds, ruleKinds...)
	}
	return kinds
}

// Missing returns the kinds that are not served, each as an empty object.
func (s Served) Missing() (kinds []runtime.Object) {
	if !s.Devices {
		kinds = append(kinds, deviceKinds...)
	}
	if !s.Devices || !s.Rules {
		kinds = append(kinds, ruleKinds...)
	}
	return kinds
}
