package simulation

import (
	"flag"
	"testing"
)

var volumeSeeds = flag.Uint64("volumeseeds", 400, "number of seeds of histories of volumes")

func TestEveryHistoryOfVolumesKeepsTheInvariants(t *testing.T) {
	kind{volumes: true}.test(t, *volumeSeeds, requiredVolumeEvents())
}

var deviceSeeds = flag.Uint64("deviceseeds", 400, "number of seeds of histories of devices")

func TestEveryHistoryOfDevicesKeepsTheInvariants(t *testing.T) {
	kind{devices: true}.test(t, *deviceSeeds, requiredDeviceEvents())
}

var explanationSeeds = flag.Uint64("explanationseeds", 400, "number of seeds of histories of explanations")

func TestEveryHistoryOfExplanationsKeepsTheInvariants(t *testing.T) {
	kind{explanations: true}.test(t, *explanationSeeds, requiredExplanationEvents())
}
