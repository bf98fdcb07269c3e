package upstreamconfig_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// authority is the certificate of an authority that is made for the test: PEM in base64.
func authority(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// fromYAML converts a configuration in which CA stands for the certificate of an authority.
func fromYAML(t *testing.T, text string, o upstreamconfig.Options) (*upstreamconfig.Result, error) {
	t.Helper()
	plain, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(v1Head+text, "@CA@", authority(t))))
	if err != nil {
		t.Fatal(err)
	}
	o.Registry = registry
	return upstreamconfig.FromConfiguration(plain, o)
}

// kube-scheduler replaces ignoredResources of each profile with what extenders ignore, and
// leaves ignoredResourceGroups as they are.
func TestResourcesThatNodeResourcesFitIgnores(t *testing.T) {
	const gpu = `{urlPrefix: "https://gpu.gpu.svc", filterVerb: filter, tlsConfig: {caData: "@CA@"}, `
	const plainGPU = `{urlPrefix: "http://gpu.gpu.svc", filterVerb: filter, `
	type ignored struct {
		Resources, Groups []string
		Lost, Notes       []string
	}
	replaced := "left out: kube-scheduler does not read it where extenders have resources with ignoredByScheduler, here "
	for name, test := range map[string]struct {
		profiles, extenders string
		want                map[string]ignored
	}{
		"what an extender ignores replaces what the arguments ignore": {
			`{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.com/x]}}]}`,
			gpu + `managedResources: [{name: b.com/y, ignoredByScheduler: true}, {name: b.com/z}]}`,
			map[string]ignored{"a": {Resources: []string{"b.com/y"}, Notes: []string{"profiles[0].pluginConfig[0].args.ignoredResources: " + replaced + "b.com/y"}}},
		},
		"in each profile, and also where the extender itself is left out": {
			`{schedulerName: a, pluginConfig: [{name: InterPodAffinity, args: {}}, {name: NodeResourcesFit, args: {ignoredResources: [a.com/x]}}]}, {schedulerName: b, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.com/x], ignoredResourceGroups: [c.com]}}]}`,
			gpu + `managedResources: [{name: b.com/y, ignoredByScheduler: true}]}, ` + plainGPU + `managedResources: [{name: b.com/w, ignoredByScheduler: true}]}`,
			map[string]ignored{
				"a": {Resources: []string{"b.com/y"}, Lost: []string{"extenders[1].urlPrefix"}, Notes: []string{"profiles[0].pluginConfig[1].args.ignoredResources: " + replaced + "b.com/w and b.com/y"}},
				"b": {Resources: []string{"b.com/y"}, Groups: []string{"c.com"}, Lost: []string{"extenders[1].urlPrefix"}, Notes: []string{"profiles[1].pluginConfig[0].args.ignoredResources: " + replaced + "b.com/w and b.com/y"}},
			},
		},
		"only groups of resources": {
			`{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a.com]}}]}`,
			gpu + `managedResources: [{name: b.com/y, ignoredByScheduler: true}]}`,
			map[string]ignored{"a": {Resources: []string{"b.com/y"}, Groups: []string{"a.com"}}},
		},
		"an extender that ignores nothing": {
			`{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.com/x]}}]}`,
			gpu + `managedResources: [{name: b.com/y}]}`,
			map[string]ignored{"a": {Resources: []string{"a.com/x"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := fromYAML(t, "profiles: ["+test.profiles+"]\nextenders: ["+test.extenders+"]\n", upstreamconfig.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]ignored{}
			for i, b := range compiled(t, read) {
				args := b.Args["NodeResourcesFit"].(*configv1.NodeResourcesFitArgs)
				entry := ignored{Resources: args.IgnoredResources, Groups: args.IgnoredResourceGroups}
				for _, r := range read.Remarks {
					switch {
					case r.Lost:
						entry.Lost = append(entry.Lost, r.Path)
					case strings.HasPrefix(r.Path, "profiles["+string(rune('0'+i))+"].pluginConfig"):
						entry.Notes = append(entry.Notes, r.String())
					}
				}
				got[b.Name] = entry
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An error names the field of kube-scheduler's file, not that of the profile.
func TestErrorsOfExtendersNameTheFieldsOfTheFile(t *testing.T) {
	for name, test := range map[string]struct{ extender, want string }{
		"filter":                 {`filterVerb: /filter`, "extenders[1].filterVerb"},
		"prioritize":             {`prioritizeVerb: a//b, weight: 1`, "extenders[1].prioritizeVerb"},
		"preempt":                {`preemptVerb: ../preempt`, "extenders[1].preemptVerb"},
		"bind":                   {`bindVerb: "bind?x"`, "extenders[1].bindVerb"},
		"no verb":                {`httpTimeout: 1s`, "extenders[1]"},
		"a managed resource":     {`filterVerb: filter, managedResources: [{name: cpu}]`, "extenders[1].managedResources[0].name"},
		"the name of the server": {`filterVerb: filter, tlsConfig: {caData: "@CA@", serverName: a_b}`, "extenders[1].tlsConfig.serverName"},
		"the authority":          {`filterVerb: filter, tlsConfig: {caData: eA==}`, "extenders[1].tlsConfig.caData"},
	} {
		t.Run(name, func(t *testing.T) {
			extender := test.extender
			if !strings.Contains(extender, "tlsConfig") {
				extender += `, tlsConfig: {caData: "@CA@"}`
			}
			// The first one is left out: the indices of the file and of the profile differ.
			_, err := fromYAML(t, `profiles: [{schedulerName: a}]
extenders: [{urlPrefix: "http://left.out", filterVerb: filter}, {urlPrefix: "https://gpu.gpu.svc", `+extender+"}]\n", upstreamconfig.Options{})
			if err == nil {
				t.Fatal("it is accepted")
			}
			if path, _, _ := strings.Cut(err.Error(), ": "); path != test.want {
				t.Errorf("%v\nnames the field %s, want %s", err, path, test.want)
			}
		})
	}
}

// The name of the options is for a file that has none.
func TestTheNameOfTheProfile(t *testing.T) {
	for name, test := range map[string]struct {
		profiles, name string
		want           []string
		err            string
	}{
		"the file has no profile":           {"[]", "b", []string{"b"}, ""},
		"the file has a profile without":    {"[{percentageOfNodesToScore: 5}]", "b", []string{"b"}, ""},
		"neither has a name":                {"[{}]", "", []string{"default-scheduler"}, ""},
		"the file has the same name":        {"[{schedulerName: b}]", "b", []string{"b"}, ""},
		"the file has another name":         {"[{schedulerName: a}]", "b", nil, `profiles[0].schedulerName: the file names the profile: leave out --scheduler-name "b", or remove or change "a" in the file`},
		"the file has several names":        {"[{schedulerName: a}, {schedulerName: b}]", "b", nil, `profiles: the file has 2 profiles, which have names of their own: leave out --scheduler-name "b"`},
		"the file has several without name": {"[{}, {}]", "", nil, `profiles[0].schedulerName: must be set where there are several profiles: it becomes the SchedulingProfile's name; profiles[1].schedulerName: must be set where there are several profiles: it becomes the SchedulingProfile's name`},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := fromYAML(t, "profiles: "+test.profiles+"\n", upstreamconfig.Options{Name: test.name})
			if err != nil {
				if err.Error() != test.err {
					t.Errorf("%v, want %q", err, test.err)
				}
				return
			}
			var names []string
			for _, p := range read.Profiles {
				names = append(names, p.Name)
			}
			if diff := cmp.Diff(test.want, names); diff != "" || test.err != "" {
				t.Errorf("(-want +got), and want the error %q:\n%s", test.err, diff)
			}
		})
	}
}
