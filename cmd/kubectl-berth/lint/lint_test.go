package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/berth/test/support/badinput"
	"github.com/berthdev/berth/test/support/kubectltest"
)

const (
	badInputFolder = "../../../test/support/badinput/"
	samplesFolder  = "../../../config/samples"
)

func TestEveryBadInputIsRejectedWithTheMessageOfTheCluster(t *testing.T) {
	cases, err := badinput.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			printed := kubectltest.New(t).Run(New, "-f", badInputFolder+c.Name+".yaml")
			want := fmt.Sprintf("%s/%s would get %s=False (%s):", c.Bad().GetKind(), c.Bad().GetName(), c.Condition, c.Reason)
			if c.Refused {
				want = fmt.Sprintf("%s/%s would be rejected by the API server:", c.Bad().GetKind(), c.Bad().GetName())
			}
			if !strings.Contains(strings.Join(strings.Fields(printed), " "), want) || !strings.HasSuffix(printed, "exit 1\n") {
				t.Errorf("not %q and exit 1:\n%s", want, printed)
			}
			if message := joinedFaults(printed); !strings.Contains(message, c.Message) {
				t.Errorf("%q does not hold %q", message, c.Message)
			}
		})
	}
}

// joinedFaults joins the errors that were printed, as the message of a condition does.
func joinedFaults(printed string) string {
	var faults []string
	for line := range strings.Lines(printed) {
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "    ") && faults != nil: // otherwise the title continues
			faults[len(faults)-1] += " " + text
		case strings.HasPrefix(line, "    "):
		case strings.HasPrefix(line, "  "):
			faults = append(faults, text)
		}
	}
	return strings.Join(faults, "; ")
}

const devicesYAML = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpus}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpus
          selectors: [{cel: {expression: 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'}}]
`

const brokenDevicesYAML = `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: broken}
spec:
  devices:
    requests:
    - name: gpu
      firstAvailable:
      - {name: best, deviceClassName: gpus, selectors: [{cel: {expression: 'device.attribute["gpu.example.com"].model == "a"'}}]}
      - {name: good, deviceClassName: gpus, selectors: [{cel: {expression: '1 + 1'}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpus}
spec: {selectors: [{cel: {expression: 'device.driver == '}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: misspelled}
spec: {devices: {request: []}}
`

// jobsYAML are the Jobs that the profile batch schedules: with a group and without.
const jobsYAML = `apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    metadata: {annotations: {berth.dev/pod-group: train, berth.dev/pod-group-min-count: "8"}}
    spec: {schedulerName: batch, containers: [{name: c, image: train}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: alone}
spec: {template: {spec: {schedulerName: batch, containers: [{name: c, image: alone}]}}}
---
`

func TestLint(t *testing.T) {
	const gangs = "spec: {plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}\n"
	const profile = "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n"
	for name, c := range map[string]struct {
		in   string
		args []string
	}{
		"the samples are valid":                         {args: []string{"-f", samplesFolder}},
		"a file with many errors":                       {args: []string{"-f", badInputFolder + "many-faults.yaml"}},
		"a PluginConfig from another file":              {in: profile + "spec: {pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n", args: []string{"-f", "-", "-f", samplesFolder + "/binpack.yaml"}},
		"a PluginConfig in no file":                     {in: profile + "spec: {pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n", args: []string{"-f", "-"}},
		"both conditions at once":                       {in: profile + "spec: {percentageOfNodesToScore: 5, plugins: {score: {enabled: [{name: Nope}]}}, pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n", args: []string{"-f", "-"}},
		"an unknown field":                              {in: profile + "spec: {plugin: {score: {}}}\n", args: []string{"-f", "-"}},
		"an annotation that is not a string":            {in: strings.Replace(profile, "{name: batch}", "{name: batch, annotations: {berth.dev/take-over: true}}", 1), args: []string{"-f", "-"}},
		"a device count that is no number":              {in: strings.Replace(devicesYAML, "deviceClassName: gpus\n", "deviceClassName: gpus\n          count: \"1\"\n", 1), args: []string{"-f", "-"}},
		"unknown fields of the metadata":                {in: strings.Replace(profile, "{name: batch}", "{name: batch, anotations: {a: b}, managedFields: [{menager: a}]}", 1), args: []string{"-f", "-"}},
		"a duplicate key":                               {in: profile + "spec: {}\nspec: {}\n", args: []string{"-f", "-"}},
		"a file that is not YAML":                       {in: "what: is: this\n", args: []string{"-f", "-"}},
		"a List, and other kinds":                       {in: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n- {apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: batch}}\n", args: []string{"-f", "-"}},
		"a kind that is misspelled":                     {in: "apiVersion: berth.dev/v1alpha1\nkind: SchedulerProfile\nmetadata: {name: batch}\n", args: []string{"-f", "-"}},
		"an unsupported version":                        {in: "apiVersion: berth.dev/v1\nkind: SchedulingProfile\nmetadata: {name: batch}\n", args: []string{"-f", "-"}},
		"a document without a name":                     {in: "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\n", args: []string{"-f", "-"}},
		"CEL of devices":                                {in: devicesYAML, args: []string{"-f", "-"}},
		"CEL that does not compile":                     {in: brokenDevicesYAML, args: []string{"-f", "-"}},
		"a group under a profile that schedules groups": {in: jobsYAML + profile + gangs, args: []string{"-f", "-"}},
		"a group under a profile that schedules none":   {in: jobsYAML + profile, args: []string{"-f", "-"}},
		"a group under a profile in no file":            {in: jobsYAML, args: []string{"-f", "-", "--offline"}},
		"a group without a minimum":                     {in: strings.Replace(jobsYAML, `, berth.dev/pod-group-min-count: "8"`, "", 1), args: []string{"-f", "-", "--offline"}},
		"only other kinds":                              {in: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", args: []string{"-f", "-"}},
		"no file":                                       {},
		"a file that does not exist":                    {args: []string{"-f", "nowhere.yaml"}},
		"a PluginConfig changed by a later document":    {args: []string{"-f", badInputFolder + "pluginconfig-plugin-changed.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t)
			env.In = c.in
			kubectltest.Golden(t, name, env.Run(New, c.args...), false)
		})
	}
}

func TestAFolderWithoutManifestsIsAnError(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "README.md"), []byte("# none"), 0o644); err != nil {
		t.Fatal(err)
	}
	printed := kubectltest.New(t).Run(New, "-f", directory)
	if !strings.Contains(printed, "contains no .yaml, .yml or .json file") || !strings.HasSuffix(printed, "exit 2\n") {
		t.Error(printed)
	}
}
