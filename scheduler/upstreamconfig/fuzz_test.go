package upstreamconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

var registry = plugins.InTree()

// compiled compiles the profiles of a converted file.
func compiled(t *testing.T, read *upstreamconfig.Result) []*compile.Blueprint {
	t.Helper()
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, c := range read.Configs {
		if _, rejection := compile.Config(c, registry); rejection != nil {
			t.Fatalf("PluginConfig %s: %s", c.Name, rejection.Message())
		}
		configs[c.Name] = c
	}
	var blueprints []*compile.Blueprint
	for _, p := range read.Profiles {
		b, rejection := compile.Profile(compile.Input{Profile: p, Configs: configs, Registry: registry, Extenders: compile.AllExtenders})
		if rejection != nil {
			t.Fatalf("profile %s: %s", p.Name, rejection.Message())
		}
		blueprints = append(blueprints, b)
	}
	return blueprints
}

// comparable is what must survive both conversions. The file has no names of extenders and no
// Secrets.
type comparable struct {
	Name       string
	Chains     framework.Chains
	Args       map[string]any
	Percentage int32
	Queue      compile.QueueSettings
	Extenders  []extender.Config
}

func comparableTo(b *compile.Blueprint) comparable {
	c := comparable{Name: b.Name, Chains: framework.Chains{}, Args: map[string]any{}, Percentage: b.PercentageOfNodesToScore, Queue: b.Queue}
	for point, chain := range b.Chains {
		if len(chain) > 0 {
			c.Chains[point] = chain
		}
	}
	for name, args := range b.Args {
		c.Args[name] = args
	}
	for _, e := range b.Extenders {
		e.Name, e.ClientCertificate = "", ""
		c.Extenders = append(c.Extenders, e)
	}
	return c
}

// checkRemarks checks that each remark names its field, and says something.
func checkRemarks(t *testing.T, remarks []upstreamconfig.Remark) {
	t.Helper()
	for _, r := range remarks {
		if r.Path == "" || r.Text == "" {
			t.Fatalf("a remark without path or text: %+v", r)
		}
	}
}

// checkErrors checks the error of a file that cannot be converted: each part names its field.
func checkErrors(t *testing.T, err error) {
	t.Helper()
	var all upstreamconfig.Errors
	if !errors.As(err, &all) || len(all) == 0 {
		t.Fatalf("%T %v is not of type Errors", err, err)
	}
	for _, text := range all {
		path, detail, found := strings.Cut(text, ": ")
		if !found || path == "" || detail == "" {
			t.Fatalf("%q names no field", text)
		}
	}
}

// checkThereAndBack converts profiles to a configuration of kube-scheduler, and that to
// profiles, which run the same.
func checkThereAndBack(t *testing.T, read *upstreamconfig.Result) {
	t.Helper()
	blueprints := compiled(t, read)
	config, remarks, err := upstreamconfig.ForKubeScheduler(blueprints, registry)
	if err != nil {
		if !strings.Contains(err.Error(), "spec.plugins.queueSort") { // the rest is common to all profiles of a file
			t.Fatal(err)
		}
		return
	}
	checkRemarks(t, remarks)
	text, err := upstreamconfig.JSON(config)
	if err != nil {
		t.Fatal(err)
	}
	again, err := upstreamconfig.FromConfiguration(text, upstreamconfig.Options{Registry: registry})
	if err != nil {
		t.Fatalf("%v\nof what is written:\n%s", err, text)
	}
	lost := map[string]bool{}
	for _, r := range upstreamconfig.LostRemarks(remarks) {
		lost[r.Path] = true
	}
	for i, b := range compiled(t, again) {
		want, got := comparableTo(blueprints[i]), comparableTo(b)
		if lossOfPlugins(lost) {
			want.Chains, got.Chains, want.Args, got.Args = nil, nil, nil, nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("profile %s there and back (-want,+got):\n%s\n%s", b.Name, diff, text)
		}
	}
	more, _ := upstreamconfig.ForAutoscaler(blueprints[0], registry)
	if len(more.Profiles) != 1 || len(more.Extenders) != 0 {
		t.Fatalf("for the autoscaler: %d profiles, %d extenders", len(more.Profiles), len(more.Extenders))
	}
}

// lossOfPlugins reports whether plugins are left out that kube-scheduler lacks.
func lossOfPlugins(lost map[string]bool) bool {
	for path := range lost {
		if strings.HasPrefix(path, "spec.plugins.") || strings.HasPrefix(path, "spec.pluginConfig") {
			return true
		}
	}
	return false
}

// asJSON returns YAML as JSON.
func asJSON(f *testing.F, text string) []byte {
	f.Helper()
	plain, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		f.Fatal(err)
	}
	return plain
}

// sampleConfigurations are the configurations that the samples are converted to.
func sampleConfigurations(f *testing.F) (all [][]byte) {
	f.Helper()
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		p, configs := &v1alpha1.SchedulingProfile{}, map[string]*v1alpha1.PluginConfig{}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			config := &v1alpha1.PluginConfig{}
			if strings.Contains(document, "kind: SchedulingProfile") {
				err = errors.Join(err, yaml.Unmarshal([]byte(document), p))
			} else if strings.Contains(document, "kind: PluginConfig") {
				err = errors.Join(err, yaml.Unmarshal([]byte(document), config))
				configs[config.Name] = config
			}
		}
		b, rejection := compile.Profile(compile.Input{Profile: p, Configs: configs, Registry: registry, Extenders: compile.AllExtenders})
		if err != nil || rejection != nil {
			f.Fatalf("%s: %v, %v", file, err, rejection)
		}
		config, _, err := upstreamconfig.ForKubeScheduler([]*compile.Blueprint{b}, registry)
		if err != nil {
			f.Fatal(err)
		}
		plain, err := upstreamconfig.JSON(config)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, plain)
	}
	return all
}

const v1Head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// FuzzConfiguration converts any JSON as a configuration of kube-scheduler. The profiles that
// it becomes compile, and converting them to a configuration and back changes nothing.
func FuzzConfiguration(f *testing.F) {
	for _, text := range sampleConfigurations(f) {
		f.Add(text, true, "")
	}
	for _, text := range []string{
		v1Head,
		v1Head + `profiles: [{schedulerName: a, pluginConfig: &c [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}, {schedulerName: b, pluginConfig: *c}]`,
		v1Head + `profiles: [{schedulerName: a, plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: NodeResourcesFit, weight: 3}, {name: DefaultBinder}]}}}]`,
		v1Head + `profiles: [{schedulerName: A_b}, {schedulerName: A_b}, {}]`,
		v1Head + "parallelism: 0\npodInitialBackoffSeconds: 0\npodMaxBackoffSeconds: 9223372036854775807\npercentageOfNodesToScore: 101\ndelayCacheUntilActive: true",
		v1Head + `profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}, {name: Nothing}, {name: SelectorSpread}]}, placementScore: {enabled: [{name: X}]}}}]`,
		v1Head + `profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}]}]`,
		v1Head + `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: []}, {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}}]}]`,
		v1Head + `profiles: [{plugins: {permit: {enabled: [{name: GangScheduling}]}}}]` + "\n",
		v1Head + `profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]` + "\n",
		v1Head + "extenders: [{urlPrefix: 'http://127.0.0.1:80/x', filterVerb: filter}, {urlPrefix: 'https://gpu.example', weight: 5, httpTimeout: 7h}]",
		"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nprofiles: [{pluginConfig: [{name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: InterPodAffinityArgs, hardPodAffinityWeight: 5}}]}]",
		"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nprofiles: [{percentageOfNodesToScore: 5}]",
	} {
		name := "batch"
		if strings.Contains(text, "schedulerName") {
			name = "" // another name than that of the file is an error
		}
		f.Add(asJSON(f, text), strings.Contains(text, "*c"), name)
	}
	f.Fuzz(func(t *testing.T, text []byte, inline bool, name string) {
		if len(text) > 32<<10 || !utf8.Valid(text) {
			return
		}
		read, err := upstreamconfig.FromConfiguration(text, upstreamconfig.Options{Registry: registry, Inline: inline, Name: name})
		if err != nil {
			checkErrors(t, err)
			return
		}
		checkRemarks(t, read.Remarks)
		if inline && len(read.Configs) > 0 {
			t.Fatalf("%d PluginConfigs, want none", len(read.Configs))
		}
		checkThereAndBack(t, read)
	})
}

// FuzzPolicy converts any JSON as a Policy of Kubernetes 1.15.
func FuzzPolicy(f *testing.F) {
	for _, text := range []string{
		`{"kind":"Policy","apiVersion":"v1"}`,
		`{"kind":"Policy","apiVersion":"v1",
"predicates":[{"name":"PodFitsHostPorts"},{"name":"PodFitsResources"},{"name":"NoDiskConflict"},{"name":"NoVolumeZoneConflict"},{"name":"MatchNodeSelector"},{"name":"HostName"}],
"priorities":[{"name":"LeastRequestedPriority","weight":1},{"name":"BalancedResourceAllocation","weight":1},{"name":"ServiceSpreadingPriority","weight":1},{"name":"EqualPriority","weight":1}],
"hardPodAffinitySymmetricWeight":10,"alwaysCheckAllPredicates":false}`,
		`{"kind":"Policy","apiVersion":"v1",
"predicates":[{"name":"GeneralPredicates"},{"name":"Zones","argument":{"serviceAffinity":{"labels":["zone"]}}},
 {"name":"Retiring","argument":{"labelsPresence":{"labels":["retiring"],"presence":false}}},{"name":"MatchInterPodAffinity"},{"name":"EvenPodsSpread"},{"name":"MaxEBSVolumeCount"}],
"priorities":[{"name":"Racks","weight":3,"argument":{"serviceAntiAffinity":{"label":"rack"}}},{"name":"Fast","weight":2,"argument":{"labelPreference":{"label":"ssd","presence":true}}},
 {"name":"Ratio","weight":4,"argument":{"requestedToCapacityRatioArguments":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}],"resources":[{"name":"cpu","weight":3}]}}},
 {"name":"MostRequestedPriority","weight":1},{"name":"NodePreferAvoidPodsPriority","weight":10000},{"name":"InterPodAffinityPriority","weight":2}],
"extenders":[{"urlPrefix":"http://127.0.0.1:12345/","filterVerb":"filter","enableHttps":false,"httpTimeout":1000000000}],"hardPodAffinitySymmetricWeight":10}`,
		`{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"GeneralPredicates"}],
"priorities":[{"name":"Ratio","weight":1,"argument":{"requestedToCapacityRatioArguments":{"shape":[{"utilization":50,"score":0},{"utilization":0,"score":10}]}}}]}`,
		`{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"PodFitResources"}],"priorities":[{"name":"LeastRequested","weight":-1}],"hardPodAffinitySymmetricWeight":101}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 32<<10 || !utf8.Valid(text) {
			return
		}
		read, err := upstreamconfig.FromPolicy(text, upstreamconfig.Options{Registry: registry, Name: "old"})
		if err != nil {
			checkErrors(t, err)
			return
		}
		checkRemarks(t, read.Remarks)
		checkThereAndBack(t, read)
	})
}
