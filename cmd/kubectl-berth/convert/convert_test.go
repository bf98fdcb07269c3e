package convert

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/cmd/kubectl-berth/lint"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/kubectltest"
)

const headV1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

const headV1beta3 = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"

// inConfigMap returns a ConfigMap with pairs of a key and its text.
func inConfigMap(pairs ...string) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: scheduler, namespace: kube-system}\ndata:\n"
	for i := 0; i < len(pairs); i += 2 {
		text += "  " + pairs[i] + ": |\n    " + strings.ReplaceAll(strings.TrimSuffix(pairs[i+1], "\n"), "\n", "\n    ") + "\n"
	}
	return text
}

// conversions are configurations of kube-scheduler by the name of their test.
var conversions = map[string]struct {
	in   string
	args []string
}{
	"an empty configuration": {in: headV1},
	"two profiles that share arguments": {in: headV1 + `percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 60
profiles:
- schedulerName: batch
  percentageOfNodesToScore: 50
  plugins:
    score: {enabled: [{name: NodeResourcesFit, weight: 5}], disabled: [{name: ImageLocality}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs, scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
- schedulerName: dense
  pluginConfig:
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}
  - {name: NodeResourcesFit, args: {scoringStrategy: {resources: [{weight: 1, name: cpu}], type: MostAllocated}}}
`},
	"two profiles inline": {args: []string{"--inline"}, in: headV1 + `profiles:
- {schedulerName: a, pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]}
- {schedulerName: b, pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}]}
`},
	"settings of the process": {in: headV1 + `parallelism: 16
delayCacheUntilActive: true
enableProfiling: true
leaderElection: {leaderElect: true, leaseDuration: 15s, resourceName: mine, resourceNamespace: here}
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf, qps: 50, burst: 100}
profiles: [{schedulerName: batch}]
`},
	"plugins that Berth does not have": {in: headV1 + `profiles:
- schedulerName: batch
  plugins:
    multiPoint:
      enabled: [{name: GangScheduling}, {name: Coscheduling}, {name: NodeLabel}, {name: ImageLocalty}]
      disabled: [{name: Capacity}, {name: DefaultPreemption}]
    filter: {enabled: [{name: NodePorts, weight: 3}]}
    score: {enabled: [{name: NodeAffinity, weight: 0}]}
    placementScore: {enabled: [{name: PodGroupPodsCount, weight: 1}]}
  pluginConfig:
  - {name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}
  - {name: NodeName, args: {}}
  - {name: NodeAffinity}
`},
	"extenders": {in: headV1 + `profiles: [{schedulerName: batch}]
extenders:
- {urlPrefix: "http://gpu.gpu.svc:8888/v1", filterVerb: filter}
- {urlPrefix: "https://127.0.0.1:8443", filterVerb: filter, enableHTTPS: true}
- {urlPrefix: "https://quota.kube-system.svc", filterVerb: filter, enableHTTPS: true, tlsConfig: {insecure: true}}
- {urlPrefix: "https://topology.kube-system.svc", filterVerb: filter, enableHTTPS: true, tlsConfig: {caFile: /etc/ca.pem}}
- {urlPrefix: "https://plain.kube-system.svc", filterVerb: filter, enableHTTPS: true}
- {urlPrefix: "https://slow.kube-system.svc", filterVerb: filter, enableHTTPS: true, httpTimeout: 20s, tlsConfig: {caData: ` + caPlaceholder + `}}
- urlPrefix: https://storage.kube-system.svc:8443/scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 2
  enableHTTPS: true
  httpTimeout: 1500ms
  ignorable: true
  managedResources: [{name: example.com/disk, ignoredByScheduler: true}]
  tlsConfig: {serverName: storage, certFile: /etc/tls.crt, keyFile: /etc/tls.key, caData: ` + caPlaceholder + `}
`},
	"resources that an extender ignores": {in: headV1 + `profiles:
- schedulerName: batch
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.com/x], ignoredResourceGroups: [c.com]}}]
- schedulerName: dense
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.com/x]}}]
extenders:
- {urlPrefix: "https://gpu.gpu.svc", filterVerb: filter, enableHTTPS: true, managedResources: [{name: b.com/y, ignoredByScheduler: true}], tlsConfig: {caData: ` + caPlaceholder + `}}
`},
	"an invalid verb of an extender": {in: headV1 + `profiles: [{schedulerName: batch}]
extenders: [{urlPrefix: "https://gpu.gpu.svc", filterVerb: /filter, enableHTTPS: true, tlsConfig: {caData: ` + caPlaceholder + `}}]
`},
	"a name for a file without one":    {in: headV1, args: []string{"--scheduler-name", "batch"}},
	"another name than that of a file": {in: headV1 + "profiles: [{schedulerName: batch}]\n", args: []string{"--scheduler-name", "b"}},
	"a name for a file with several":   {in: headV1 + "profiles: [{schedulerName: batch}, {schedulerName: dense}]\n", args: []string{"--scheduler-name", "dense"}},
	"all errors are reported at once": {in: headV1 + `parallelism: 0
podInitialBackoffSeconds: 100000
profiles:
- schedulerName: Batch_1
  plugins: {score: {enabled: [{name: NodeResourcesFit, weight: -1}]}}
- schedulerName: a-name-that-is-longer-than-the-63-characters-which-events-allow-a-reporter
- plugins: {}
- schedulerName: Batch_1
`},
	"errors of the compiler name the fields of the file": {in: headV1 + `podInitialBackoffSeconds: 20
profiles:
- {schedulerName: a}
- schedulerName: b
  percentageOfNodesToScore: 101
  plugins:
    filter: {enabled: [{name: Coscheduling}, {name: ImageLocality}]}
  pluginConfig:
  - {name: Coscheduling, args: {}}
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAlocated}}}
`},
	"an unknown field":          {in: headV1 + "profiles: [{schedulerNam: batch}]\npercentage: 3\n"},
	"a value of the wrong type": {in: headV1 + "profiles: [{schedulerName: 3}]\n"},
	"v1beta3": {in: headV1beta3 + `percentageOfNodesToScore: 30
profiles:
- schedulerName: batch
  plugins:
    score: {enabled: [{name: NodeResourcesFit, weight: 5}, {name: SelectorSpread}], disabled: [{name: ImageLocality}]}
    filter: {disabled: [{name: EBSLimits}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeResourcesFitArgs, scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  - name: InterPodAffinity
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs, hardPodAffinityWeight: 7}
`},
	"v1beta3 with fields of v1":                   {in: headV1beta3 + "delayCacheUntilActive: true\nprofiles: [{schedulerName: batch, percentageOfNodesToScore: 5}]\n"},
	"v1beta3 with an unknown field":               {in: headV1beta3 + "healthzBindAddress: 0.0.0.0\n"},
	"a ConfigMap":                                 {in: inConfigMap("scheduler-config.yaml", headV1+"profiles: [{schedulerName: batch}]\n")},
	"a ConfigMap with two configurations":         {in: inConfigMap("a.yaml", headV1, "b.yaml", headV1beta3+"profiles: [{schedulerName: batch}]\n", "README", "nothing: [\n")},
	"one of two configurations in a ConfigMap":    {in: inConfigMap("a.yaml", headV1, "b.yaml", headV1beta3+"profiles: [{schedulerName: batch}]\n"), args: []string{"--key", "b.yaml"}},
	"a key that the ConfigMap does not have":      {in: inConfigMap("a.yaml", headV1), args: []string{"--key", "b.yaml"}},
	"a ConfigMap with a Policy, beside a Pod":     {in: "apiVersion: v1\nkind: Pod\nmetadata: {name: scheduler}\n---\n" + inConfigMap("policy.cfg", `{"apiVersion": "v1", "kind": "Policy", "predicates": [{"name": "PodFitsResources"}], "priorities": [{"name": "LeastRequestedPriority", "weight": 1}]}`)},
	"a ConfigMap without a configuration":         {in: inConfigMap("application.properties", "a=b", "b.yaml", "a: b")},
	"a ConfigMap whose configuration is not YAML": {in: inConfigMap("a.yaml", headV1+"profiles: [\n")},
	"a ConfigMap of binary data":                  {in: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: scheduler}\nbinaryData: {a.yaml: " + base64.StdEncoding.EncodeToString([]byte(headV1)) + "}\n"},
	"a key without a ConfigMap":                   {in: headV1, args: []string{"--key", "a.yaml"}},
	"an unsupported version":                      {in: "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n"},
	"an unsupported kind":                         {in: "apiVersion: v1\nkind: Secret\n"},
	"a profile without --to":                      {in: "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n"},
	"two documents":                               {in: headV1 + "---\n" + headV1},
	"an unsupported value of --to":                {in: headV1, args: []string{"--to", "volcano"}},
}

// caPlaceholder stands for caBundle, which differs in every run.
const caPlaceholder = "@CA@"

func TestFromKubeScheduler(t *testing.T) {
	for name, c := range conversions {
		t.Run(name, func(t *testing.T) {
			s := kubectltest.New(t)
			s.In = strings.ReplaceAll(c.in, caPlaceholder, caBundle)
			printed := s.Run(newTestCommand, append([]string{"-f", "-"}, c.args...)...)
			kubectltest.Golden(t, name, strings.ReplaceAll(printed, caBundle, caPlaceholder), true)
			checkWithLint(t, printed)
		})
	}
}

// checkWithLint checks that lint accepts the objects that were printed.
func checkWithLint(t *testing.T, printed string) {
	t.Helper()
	objects, _, _ := strings.Cut(printed, "--- standard error\n")
	if !strings.HasPrefix(objects, "---\napiVersion: berth.dev/") {
		return
	}
	if i := strings.LastIndex(objects, "exit "); i >= 0 {
		objects = objects[:i]
	}
	s := kubectltest.New(t)
	s.In = objects
	if printed := s.Run(lint.New, "-f", "-"); !strings.HasSuffix(printed, "exit 0\n") {
		t.Errorf("lint prints:\n%s", printed)
	}
}

const batchYAML = "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n"

func TestToKubeScheduler(t *testing.T) {
	for name, in := range map[string]string{
		"back: the default profile": batchYAML,
		"back: weights, arguments, backoff and a PluginConfig": batchYAML + `spec:
  percentageOfNodesToScore: 30
  plugins:
    score: {enabled: [{name: NodeResourcesFit, weight: 5}], disabled: [{name: ImageLocality}]}
  pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}, {name: InterPodAffinity, args: {hardPodAffinityWeight: 1}}]
  queue: {maxBackoffSeconds: 60}
---
apiVersion: berth.dev/v1alpha1
kind: PluginConfig
metadata: {name: binpack}
spec: {plugin: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}
`,
		"back: fields that kube-scheduler does not have": batchYAML + `spec:
  state: Paused
  activation: Manual
  allowedNamespaces: {from: Selector, selector: {matchLabels: {team: a}}}
  queue: {flushAfterSeconds: 60}
  decisions: {topScores: 1}
  exports: {autoscaler: {configMap: autoscaler}}
`,
		"back: extenders": batchYAML + `spec:
  extenders:
  - {name: gpu, url: "https://gpu.gpu.svc:8443/v1", verbs: {filter: filter}, failurePolicy: Ignore, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}], tls: {caBundle: ` + caPlaceholder + `, clientCertificateRef: {name: gpu-client}}}
`,
		"back: two profiles with different backoffs": batchYAML + "---\n" + strings.Replace(batchYAML, "batch", "other", 1) + "spec: {queue: {maxBackoffSeconds: 60}}\n",
		"back: a profile that is rejected":           batchYAML + "spec: {plugins: {score: {enabled: [{name: Nope}]}}}\n",
		"back: no profile":                           headV1,
	} {
		t.Run(name, func(t *testing.T) {
			s := kubectltest.New(t)
			s.In = strings.ReplaceAll(in, caPlaceholder, caBundle)
			printed := s.Run(newTestCommand, "-f", "-", "--to", "kube-scheduler")
			kubectltest.Golden(t, name, strings.ReplaceAll(printed, caBundle, caPlaceholder), true)
		})
	}
}

func TestAProfileOfTheCluster(t *testing.T) {
	objects := []client.Object{
		kubectltest.Profile("batch", 3, kubectltest.WithConfigRef("NodeResourcesFit", "binpack")),
		kubectltest.Config("binpack", "NodeResourcesFit", `{"scoringStrategy":{"type":"MostAllocated"}}`),
		kubectltest.Profile("lonely", 1, kubectltest.WithConfigRef("NodeResourcesFit", "gone")),
	}
	for name, args := range map[string][]string{
		"of the cluster": {"profile/batch", "--to", "kube-scheduler"},
		"of the cluster: a PluginConfig is missing": {"profile/lonely", "--to", "kube-scheduler"},
		"of the cluster: no such profile":           {"profile/bach", "--to", "kube-scheduler"},
		"of the cluster: without --to":              {"profile/batch"},
		"of the cluster: with a file":               {"profile/batch", "-f", "-", "--to", "kube-scheduler"},
		"no file and no profile":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			kubectltest.Golden(t, name, kubectltest.New(t, objects...).Run(newTestCommand, args...), true)
		})
	}
}

func TestConvertingBackAndForthKeepsTheProfile(t *testing.T) {
	const file = headV1 + `podMaxBackoffSeconds: 60
profiles:
- schedulerName: batch
  percentageOfNodesToScore: 7
  plugins:
    preScore: {disabled: [{name: "*"}], enabled: [{name: NodeAffinity}]}
    score: {disabled: [{name: "*"}], enabled: [{name: NodeAffinity, weight: 3}]}
`
	s := kubectltest.New(t)
	s.In = file
	first := standardOutput(s.Run(newTestCommand, "-f", "-"))
	s.In = first
	back := standardOutput(s.Run(newTestCommand, "-f", "-", "--to", "kube-scheduler"))
	s.In = back
	again := standardOutput(s.Run(newTestCommand, "-f", "-"))
	s.In = again
	if twice := standardOutput(s.Run(newTestCommand, "-f", "-", "--to", "kube-scheduler")); twice != back {
		t.Errorf("back:\n%s\nand back again:\n%s", back, twice)
	}
	if !strings.Contains(back, "podMaxBackoffSeconds: 60") || !strings.Contains(back, "weight: 3") {
		t.Errorf("something is lost on the way:\n%s", back)
	}
}

// standardOutput returns what was printed to standard output.
func standardOutput(printed string) string {
	out, _, _ := strings.Cut(printed, "--- standard error\n")
	if i := strings.LastIndex(out, "exit "); i >= 0 && strings.Count(out[i:], "\n") == 1 {
		out = out[:i]
	}
	return out
}

// newTestCommand returns the verb with a fixed set of plugins, so that the golden files do
// not depend on which plugins exist.
func newTestCommand(env verb.Env) *cobra.Command {
	registry := framework.Registry{}
	for _, name := range []string{
		"SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
		"PodTopologySpread", "InterPodAffinity", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder", "NodeDeclaredFeatures",
		"ServiceAffinity", "NodePreferAvoidPods",
	} {
		if registration, there := plugins.InTree()[name]; there {
			registry[name] = registration
		}
	}
	return newWithRegistry(env, registry)
}

// caBundle is the certificate of an authority that is made for the test: PEM in base64.
var caBundle = func() string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}()

// The Policies are like those in the documentation of Kubernetes 1.15.
func TestFromAPolicy(t *testing.T) {
	for name, in := range map[string]string{
		"policy: an empty one": `{"kind":"Policy","apiVersion":"v1"}`,
		"policy: an example of the documentation": `{"kind":"Policy","apiVersion":"v1",
"predicates":[{"name":"PodFitsHostPorts"},{"name":"PodFitsResources"},{"name":"NoDiskConflict"},{"name":"NoVolumeZoneConflict"},{"name":"MatchNodeSelector"},{"name":"HostName"}],
"priorities":[{"name":"LeastRequestedPriority","weight":1},{"name":"BalancedResourceAllocation","weight":1},{"name":"ServiceSpreadingPriority","weight":1},{"name":"EqualPriority","weight":1}],
"hardPodAffinitySymmetricWeight":10,"alwaysCheckAllPredicates":false}`,
		"policy: arguments": `{"kind":"Policy","apiVersion":"v1",
"predicates":[{"name":"GeneralPredicates"},{"name":"Zones","argument":{"serviceAffinity":{"labels":["zone"]}}},
 {"name":"Retiring","argument":{"labelsPresence":{"labels":["retiring"],"presence":false}}},{"name":"MatchInterPodAffinity"},{"name":"EvenPodsSpread"},{"name":"MaxEBSVolumeCount"},{"name":"CheckNodeMemoryPressure"}],
"priorities":[{"name":"Racks","weight":3,"argument":{"serviceAntiAffinity":{"label":"rack"}}},{"name":"Rows","weight":3,"argument":{"serviceAntiAffinity":{"label":"row"}}},
 {"name":"Fast","weight":2,"argument":{"labelPreference":{"label":"ssd","presence":true}}},
 {"name":"Ratio","weight":4,"argument":{"requestedToCapacityRatioArguments":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}],"resources":[{"name":"cpu","weight":3}]}}},
 {"name":"MostRequestedPriority","weight":1},{"name":"NodePreferAvoidPodsPriority","weight":10000},{"name":"InterPodAffinityPriority","weight":2}],
"extenders":[{"urlPrefix":"http://127.0.0.1:12345/","filterVerb":"filter","enableHttps":false,"httpTimeout":1000000000}],
"hardPodAffinitySymmetricWeight":10,"alwaysCheckAllPredicates":true}`,
		"policy: labels without a node selector": `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"Region","argument":{"labelsPresence":{"labels":["region"],"presence":true}}}],"priorities":[]}`,
		"policy: errors": `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"PodFitResources"}],
"priorities":[{"name":"LeastRequested","weight":1},{"name":"ImageLocalityPriority","weight":0},
 {"name":"a","weight":1,"argument":{"serviceAntiAffinity":{"label":"rack"}}},{"name":"b","weight":2,"argument":{"serviceAntiAffinity":{"label":"row"}}}],
"hardPodAffinitySymmetricWeight":101}`,
		"policy: a shape that falls back": `{"kind":"Policy","apiVersion":"v1","predicates":[{"name":"GeneralPredicates"}],
"priorities":[{"name":"Ratio","weight":1,"argument":{"requestedToCapacityRatioArguments":{"shape":[{"utilization":50,"score":0},{"utilization":0,"score":10}]}}}]}`,
		"policy: an unknown field": `{"kind":"Policy","apiVersion":"v1","predicate":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := kubectltest.New(t)
			s.In = in
			printed := s.Run(newTestCommand, "-f", "-", "--scheduler-name", "old")
			kubectltest.Golden(t, name, printed, true)
			checkWithLint(t, printed)
		})
	}
}
