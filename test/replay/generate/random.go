package generate

import (
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
)

// random is a seeded source.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 0x6265727468))} }

// chance is true with the given probability in percent.
func (d random) chance(percent int) bool { return d.IntN(100) < percent }

// between returns a number from low to high, both included.
func (d random) between(low, high int) int { return low + d.IntN(high-low+1) }

// pick returns one item of list.
func pick[T any](d random, list []T) T { return list[d.IntN(len(list))] }

// some returns up to most items of list, in any order, each once.
func some[T any](d random, list []T, most int) []T {
	order := d.Perm(len(list))[:d.IntN(min(most, len(list))+1)]
	chosen := make([]T, 0, len(order))
	for _, i := range order {
		chosen = append(chosen, list[i])
	}
	return chosen
}

// weighted is a value with its relative probability.
type weighted[T any] struct {
	share int
	value T
}

// draw returns one value of list, by its share.
func draw[T any](d random, list []weighted[T]) T {
	sum := 0
	for _, w := range list {
		sum += w.share
	}
	at := d.IntN(sum)
	for _, w := range list {
		if at -= w.share; at < 0 {
			return w.value
		}
	}
	return list[len(list)-1].value
}

// The values that nodes and pods use. They are few, so that what a pod asks for often exists,
// and often does not.
var (
	zones      = []string{"a", "b", "c"}
	regions    = []string{"east", "west"}
	racks      = []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7"}
	namespaces = []string{"default", "shop", "batch"}
	priorities = []int32{-10, 0, 1, 100, 100000}

	// Labels of pods and namespaces.
	apps  = []string{"web", "db", "cache"}
	tiers = []string{"front", "back"}
	teams = []string{"red", "blue"}

	labels = map[string][]string{
		"disk": {"ssd", "hdd"},
		"gen":  {"1", "2", "5", "10", "-3"},
		"arch": {"amd64", "arm64"},
		"odd":  {"", "x"},
	}
	labelKeys = []string{"disk", "gen", "arch", "odd", v1.LabelTopologyZone, v1.LabelHostname}

	taintKeys   = []string{"dedicated", "flaky", "gpu", v1.TaintNodeUnschedulable}
	taintValues = []string{"", "web", "batch", "3"}
	effects     = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}

	// extended are resources of whole numbers.
	extended = []v1.ResourceName{"example.com/gpu", "example.com/fpga", "other.org/lane", "hugepages-2Mi"}

	images = []string{
		"registry.local/web:v1", "registry.local/web:v2", "registry.local/db:12", "registry.local/tools/shell:latest",
		"cache:7", "cache", "registry.local/model@sha256:0000000000000000000000000000000000000000000000000000000000000001",
	}

	hostIPs   = []string{"", "0.0.0.0", "127.0.0.1", "10.1.2.3", "::"}
	hostPorts = []int32{80, 443, 8080, 9100}
	protocols = []v1.Protocol{"", v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP}

	features = []string{"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"}
)
