package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// deviceFlags say which devices each node has.
type deviceFlags struct {
	file          string
	count         int
	model, memory string
	set           *pflag.FlagSet
}

func (d *deviceFlags) add(f *pflag.FlagSet) {
	d.set = f
	f.IntVar(&d.count, "devices", 4, "how many devices each node has: gpu-0, gpu-1 and so on")
	f.StringVar(&d.model, "model", "a", "their attribute model")
	f.StringVar(&d.memory, "memory", "80Gi", "their capacity memory")
	f.StringVar(&d.file, "file", "", "a YAML file with the devices, instead of --devices, --model and --memory: a list of devices as in ResourceSlices, each with a count")
}

// devices returns the devices of one node.
func (d *deviceFlags) devices() ([]resourceapi.Device, error) {
	if d.file == "" {
		return d.fromFlags()
	}
	for _, name := range []string{"devices", "model", "memory"} {
		if d.set.Changed(name) {
			return nil, fmt.Errorf("--%s and --file exclude each other", name)
		}
	}
	text, err := os.ReadFile(d.file)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	devices, err := parseDevices(text)
	if err != nil {
		return nil, fmt.Errorf("--file %s: %w", d.file, err)
	}
	return devices, nil
}

func (d *deviceFlags) fromFlags() ([]resourceapi.Device, error) {
	memory, err := resource.ParseQuantity(d.memory)
	if err != nil {
		return nil, fmt.Errorf("--memory %q is invalid: must be a quantity such as 80Gi", d.memory)
	}
	if d.count < 1 || d.count > resourceapi.ResourceSliceMaxDevices {
		return nil, fmt.Errorf("--devices %d is invalid: must be 1 to %d", d.count, resourceapi.ResourceSliceMaxDevices)
	}
	if len(d.model) > resourceapi.DeviceAttributeMaxValueLength {
		return nil, fmt.Errorf("--model %q is invalid: must be no more than %d characters", d.model, resourceapi.DeviceAttributeMaxValueLength)
	}
	return expand([]deviceGroup{{Count: &d.count, Device: resourceapi.Device{
		Name:       "gpu",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &d.model}},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: memory}},
	}}})
}

// deviceGroup is an element of the file: a device, or with a count so many that differ in
// the number behind the name.
type deviceGroup struct {
	Count *int `json:"count,omitempty"`

	resourceapi.Device `json:",inline"`
}

// parseDevices returns the devices that a file has.
func parseDevices(text []byte) ([]resourceapi.Device, error) {
	var groups []deviceGroup
	if err := yaml.UnmarshalStrict(text, &groups); err != nil {
		return nil, err
	}
	return expand(groups)
}

// expand returns the devices of the groups in their order. Names are unique and valid, and
// one ResourceSlice can hold the devices.
func expand(groups []deviceGroup) ([]resourceapi.Device, error) {
	var devices []resourceapi.Device
	names := map[string]bool{}
	for i, group := range groups {
		numbered, count := group.Count != nil, 1
		if numbered {
			count = *group.Count
		}
		if count < 1 || count > resourceapi.ResourceSliceMaxDevices {
			return nil, fmt.Errorf("[%d].count: %d is invalid: must be 1 to %d", i, count, resourceapi.ResourceSliceMaxDevices)
		}
		for n := range count {
			device := *group.Device.DeepCopy()
			if numbered {
				device.Name = fmt.Sprintf("%s-%d", group.Name, n)
			}
			if problems := validation.IsDNS1123Label(device.Name); len(problems) > 0 {
				return nil, fmt.Errorf("[%d].name: %q is invalid: %s", i, device.Name, strings.Join(problems, "; "))
			}
			if names[device.Name] {
				return nil, fmt.Errorf("[%d].name: %q is the name of another device", i, device.Name)
			}
			names[device.Name] = true
			devices = append(devices, device)
		}
	}
	if len(devices) == 0 || len(devices) > resourceapi.ResourceSliceMaxDevices {
		return nil, fmt.Errorf("there are %d devices: must be 1 to %d, which one ResourceSlice can hold", len(devices), resourceapi.ResourceSliceMaxDevices)
	}
	return devices, nil
}
