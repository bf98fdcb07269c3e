package simulation

import (
	"flag"
	"testing"
)

var (
	volumeSeeds      = flag.Uint64("volumeseeds", 250, "number of seeds of histories of volumes")
	deviceSeeds      = flag.Uint64("deviceseeds", 250, "number of seeds of histories of devices")
	gangReplicaSeeds = flag.Uint64("gangreplicaseeds", 40, "number of seeds of histories of gangs and replicas")
	explanationSeeds = flag.Uint64("explanationseeds", 250, "number of seeds of histories of explanations")
)

func TestEveryHistoryOfVolumesKeepsTheInvariants(t *testing.T) {
	kind{volumes: true}.test(t, *volumeSeeds, requiredVolumeEvents())
}

func TestEveryHistoryOfDevicesKeepsTheInvariants(t *testing.T) {
	kind{devices: true}.test(t, *deviceSeeds, requiredDeviceEvents())
}

func TestEveryHistoryOfGangsAndReplicasKeepsTheInvariants(t *testing.T) {
	gangsAndReplicas.test(t, *gangReplicaSeeds, requiredGangReplicaEvents())
}

func TestEveryHistoryOfExplanationsKeepsTheInvariants(t *testing.T) {
	kind{explanations: true}.test(t, *explanationSeeds, requiredExplanationEvents())
}
