package generate

import v1 "k8s.io/api/core/v1"

// The words that nodes and pods share. They are few, so that what pods ask for
// is often there, and often not.
var (
	zones      = []string{"a", "b", "c"}
	regions    = []string{"east", "west"}
	racks      = []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7"}
	namespaces = []string{"default", "shop", "batch"}
	priorities = []int32{-10, 0, 1, 100, 100000}

	// What pods are labelled with, and namespaces.
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

	// extended are resources that come in whole numbers.
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
