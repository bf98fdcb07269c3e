package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAFileDescribesTheDevices(t *testing.T) {
	const text = `
- name: large
  count: 2
  attributes: {model: {string: a}}
  capacity: {memory: {value: 80Gi}}
- name: shared
  allowMultipleAllocations: true
`
	got, err := parseDevices([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	large := func(name string) resourceapi.Device {
		return resourceapi.Device{
			Name:       name,
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: new("a")}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		}
	}
	want := []resourceapi.Device{large("large-0"), large("large-1"), {Name: "shared", AllowMultipleAllocations: new(true)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestAnErrorNamesTheFlag(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":                      {nil, "no command: want publish or kubelet"},
		"an unknown command":              {[]string{"serve"}, `unknown command "serve": want publish or kubelet`},
		"an unknown flag":                 {[]string{"publish", "--dvices=1"}, "unknown flag: --dvices"},
		"an argument":                     {[]string{"publish", "n0"}, `unexpected argument "n0"`},
		"a driver that is no domain":      {[]string{"publish", "--driver=GPU"}, `--driver "GPU" is invalid`},
		"a driver whose name is too long": {[]string{"publish", "--driver=" + strings.Repeat("a", 64)}, "must be no more than 63 characters"},
		"an invalid selector":             {[]string{"publish", "--selector=a==b=="}, `--selector "a==b==" is invalid`},
		"no devices":                      {[]string{"publish", "--devices=0"}, "--devices 0 is invalid: must be 1 to 128"},
		"too many devices":                {[]string{"publish", "--devices=129"}, "--devices 129 is invalid: must be 1 to 128"},
		"memory that is no quantity":      {[]string{"publish", "--memory=much"}, `--memory "much" is invalid: must be a quantity`},
		"a file and a flag":               {[]string{"publish", "--file=a.yaml", "--model=b"}, "--model and --file exclude each other"},
		"a file that does not exist":      {[]string{"publish", "--file=missing.yaml"}, "--file: open missing.yaml: no such file"},
		"an unknown field in a file":      {[]string{"publish", "--file", fileWith(t, "[{name: a, modell: b}]")}, "unknown field"},
		"two devices of one name":         {[]string{"kubelet", "--node=n0", "--file", fileWith(t, "[{name: a-0}, {name: a, count: 1}]")}, `[1].name: "a-0" is the name of another device`},
		"a device with an invalid name":   {[]string{"kubelet", "--node=n0", "--file", fileWith(t, "[{name: A}]")}, `[0].name: "A" is invalid`},
		"a plugin without a node":         {[]string{"kubelet"}, "--node is missing"},
		"a kubeconfig that is missing":    {[]string{"publish", "--kubeconfig=missing"}, "read the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NODE_NAME", "")
			var out bytes.Buffer
			// A command that accepts its flags ends at once.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := run(ctx, c.args, &out)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// fileWith returns the path of a file with the text.
func fileWith(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "devices.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
