package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// testPlugin returns the plugin of node n0, with the devices gpu-0 and gpu-1, and all that
// shared allows.
func testPlugin(t *testing.T, dir string) *plugin {
	t.Helper()
	devices, err := parseDevices([]byte("[{name: gpu, count: 2}, {name: shared, allowMultipleAllocations: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	return newPlugin(kubeletOptions{node: "n0", specs: specFiles{dir: dir, driver: testDriver}, devices: devices}, nil)
}

// claimOf returns a claim with devices of pool n0, one for each request.
func claimOf(uid types.UID, devices ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	results := &claim.Status.Allocation.Devices.Results
	*results = append(*results, resourceapi.DeviceRequestAllocationResult{Request: "nic", Driver: "nic.example.com", Pool: "n0", Device: "nic-0"})
	for i, device := range devices {
		*results = append(*results, resourceapi.DeviceRequestAllocationResult{Request: fmt.Sprint("r", i), Driver: testDriver, Pool: "n0", Device: device})
	}
	return claim
}

func prepare(t *testing.T, p *plugin, claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	t.Helper()
	results, err := p.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{claim})
	if err != nil {
		t.Fatal(err)
	}
	return results[claim.UID]
}

// environment returns the environment of each CDI device in the folder, by its ID.
func environment(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var spec cdi.Spec
		if err := json.Unmarshal(text, &spec); err != nil {
			t.Fatal(err)
		}
		for _, device := range spec.Devices {
			all[spec.Kind+"="+device.Name] = device.ContainerEdits.Env
		}
	}
	return all
}

func TestAPreparedClaimHasASpecification(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi")
	p := testPlugin(t, dir)
	got := prepare(t, p, claimOf("uid-1", "gpu-1", "shared"))
	device := func(request, name string) kubeletplugin.Device {
		return kubeletplugin.Device{Requests: []string{request}, PoolName: "n0", DeviceName: name, CDIDeviceIDs: []string{"gpu.example.com/device=uid-1-" + name}}
	}
	want := kubeletplugin.PrepareResult{Devices: []kubeletplugin.Device{device("r0", "gpu-1"), device("r1", "shared")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	written := map[string][]string{
		"gpu.example.com/device=uid-1-gpu-1":  {"GPU_DEVICE_1=gpu-1"},
		"gpu.example.com/device=uid-1-shared": {"GPU_DEVICE_2=shared"},
	}
	if diff := cmp.Diff(written, environment(t, dir)); diff != "" {
		t.Errorf("the specification (-want,+got):\n%s", diff)
	}
	// The kubelet calls again after a restart.
	if again := prepare(t, testPlugin(t, dir), claimOf("uid-1", "gpu-1", "shared")); cmp.Diff(want, again) != "" {
		t.Errorf("the second time (-want,+got):\n%s", cmp.Diff(want, again))
	}
	for range 2 {
		errs, err := p.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "uid-1"}})
		if err != nil || errs["uid-1"] != nil || len(errs) != 1 {
			t.Fatalf("unprepare: %v, %v", errs, err)
		}
	}
	if left := environment(t, dir); len(left) > 0 {
		t.Errorf("specifications are left: %v", left)
	}
}

func TestAClaimIsNotPrepared(t *testing.T) {
	dir := t.TempDir()
	if first := prepare(t, testPlugin(t, dir), claimOf("uid-1", "gpu-0", "shared")); first.Err != nil {
		t.Fatal(first.Err)
	}
	elsewhere := claimOf("uid-2", "gpu-1")
	elsewhere.Status.Allocation.Devices.Results[1].Pool = "n1"
	for name, c := range map[string]struct {
		claim *resourceapi.ResourceClaim
		want  string
	}{
		"when another claim has the device":  {claimOf("uid-2", "gpu-0"), "device gpu-0 is prepared for the claim with UID uid-1"},
		"when the device is unknown":         {claimOf("uid-2", "gpu-9"), "device gpu-9 of pool n0 does not exist: this is the driver of node n0"},
		"when the device is of another node": {elsewhere, "device gpu-1 of pool n1 does not exist: this is the driver of node n0"},
		"but when devices can be shared":     {claimOf("uid-3", "shared"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := prepare(t, testPlugin(t, dir), c.claim).Err; err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("the error is %q, want %q", got, c.want)
			}
		})
	}
}
