package hostile

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities are amounts: usual ones, and those at and beyond the bounds of int64, negative
// ones, and fractions.
var quantities = []string{
	"1", "0", "100m", "2", "500m", "64Mi", "1Gi", "10", "4", "1500m",
	"-1", "-500m", "-1Gi", "-0", "1n", "999999999n", "0.1", "1.5", "1e3", "12E", "1Ei", "7Ei", "8Ei",
	"9223372036854775807", "9223372036854775806", "-9223372036854775808", "9223372036854775807m", "1e18", "1e19", "9e40", "-9e40",
	"1125899906842624", "1125899906842625", "1125899906842623",
}

// Quantity returns an amount.
func (b *Bytes) Quantity() resource.Quantity { return resource.MustParse(Pick(b, quantities...)) }

// resourceNames are the names of resources: native ones, extended ones, those that plugins
// treat in a special way, and names that are invalid.
var resourceNames = []v1.ResourceName{
	v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods, "example.com/gpu", "example.com/fpga",
	"hugepages-2Mi", "attachable-volumes-csi-disk.example.com", "kubernetes.io/batch-cpu", "requests.cpu", "storage", "", "/", "no resource!",
}

// ResourceList returns amounts of up to most resources; nil for none.
func (b *Bytes) ResourceList(most int) v1.ResourceList {
	var list v1.ResourceList
	for range b.Below(most + 1) {
		if list == nil {
			list = v1.ResourceList{}
		}
		list[Pick(b, resourceNames...)] = b.Quantity()
	}
	return list
}
