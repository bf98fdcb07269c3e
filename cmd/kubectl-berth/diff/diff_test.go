package diff

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/kubectltest"
)

const (
	profileYAML       = "apiVersion: berth.dev/v1alpha1\nkind: SchedulingProfile\nmetadata: {name: batch}\n"
	pluginConfigYAML  = "apiVersion: berth.dev/v1alpha1\nkind: PluginConfig\nmetadata: {name: binpack}\n"
	mostAllocatedArgs = `{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}`
	unchangedYAML     = profileYAML + "spec: {plugins: {score: {enabled: [{name: TaintToleration, weight: 5}]}}, pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n"
)

// testObjects is a cluster in which batch is running, with arguments from a PluginConfig.
func testObjects() []client.Object {
	config := kubectltest.Config("binpack", "NodeResourcesFit", `{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1}]}}`)
	p := kubectltest.Profile("batch", 6, kubectltest.WithWeight("TaintToleration", 5), kubectltest.WithConfigRef("NodeResourcesFit", "binpack"))
	runs := kubectltest.Revision(p, 1, config)
	return []client.Object{config, kubectltest.Running(p, runs, 6), runs}
}

// withEverything sets what an edit of a test changes.
func withEverything(caBundle []byte) func(*v1alpha1.SchedulingProfileSpec) {
	return func(s *v1alpha1.SchedulingProfileSpec) {
		s.Extenders = []v1alpha1.Extender{{
			Name: "gpu", URL: "https://gpu.gpu.svc:8443/v1", Verbs: v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"},
			TLS: v1alpha1.ExtenderTLS{CABundle: caBundle}, ManagedResources: []v1alpha1.ExtenderManagedResource{{Name: "example.com/gpu"}},
		}}
		s.Exports.Autoscaler = &v1alpha1.AutoscalerExport{ConfigMap: "autoscaler"}
		s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", Args: &runtime.RawExtension{Raw: []byte(`{"scoringStrategy":{"type":"LeastAllocated"}}`)}}}
	}
}

func TestEveryFieldIsCompared(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	server.Close()
	caBundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	edits := map[string]struct {
		edit func(*v1alpha1.SchedulingProfileSpec)
		want string
	}{
		"state":      {func(s *v1alpha1.SchedulingProfileSpec) { s.State = v1alpha1.StatePaused }, "+ state: Paused"},
		"activation": {func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual }, "+ activation: Manual"},
		"base": {func(s *v1alpha1.SchedulingProfileSpec) {
			s.Base = v1alpha1.BaseNone
			s.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "PrioritySort"}, {Name: "NodeResourcesFit"}, {Name: "DefaultBinder"}}}}
		}, "- ImageLocality"},
		"plugins": {func(s *v1alpha1.SchedulingProfileSpec) {
			s.Plugins = &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "ImageLocality"}}}}
		}, "- ImageLocality"},
		"pluginConfig": {func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig[0].Args.Raw = []byte(`{"scoringStrategy":{"type":"MostAllocated"}}`)
		}, "+   type: MostAllocated"},
		"percentageOfNodesToScore": {func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 7 }, "+ percentageOfNodesToScore: 7"},
		"allowedNamespaces": {func(s *v1alpha1.SchedulingProfileSpec) {
			s.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesSelector, Selector: &v1alpha1.NamespaceSelector{MatchLabels: map[string]string{"team": "a"}}}
		}, "+ allowedNamespaces: team=a"},
		"queue.initialBackoffSeconds":     {func(s *v1alpha1.SchedulingProfileSpec) { s.Queue.InitialBackoffSeconds = ptr.To[int32](2) }, "+ queue.initialBackoff: 2s"},
		"queue.maxBackoffSeconds":         {func(s *v1alpha1.SchedulingProfileSpec) { s.Queue.MaxBackoffSeconds = ptr.To[int32](20) }, "+ queue.maxBackoff: 20s"},
		"queue.flushAfterSeconds":         {func(s *v1alpha1.SchedulingProfileSpec) { s.Queue.FlushAfterSeconds = ptr.To[int32](0) }, "+ queue.flushAfter: never"},
		"exports.autoscaler.configMap":    {func(s *v1alpha1.SchedulingProfileSpec) { s.Exports.Autoscaler.ConfigMap = "other" }, "+ exports.autoscaler.configMap: other"},
		"decisions.annotate":              {func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Annotate = v1alpha1.Disabled }, "+ decisions.annotate: false"},
		"decisions.topScores":             {func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.TopScores = ptr.To[int32](0) }, "+ decisions.topScores: 0"},
		"decisions.explain":               {func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Explain = v1alpha1.ExplainAll }, "+ decisions.explain: All"},
		"decisions.detail":                {func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Detail = v1alpha1.DetailNodes }, "+ decisions.detail: Nodes"},
		"decisions.history":               {func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.History = ptr.To[int32](1) }, "+ decisions.history: 1"},
		"decisions.publishSeconds":        {func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.PublishSeconds = ptr.To[int32](60) }, "+ decisions.publish: 1m0s"},
		"extenders.name":                  {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].Name = "other" }, "+ - name: other"},
		"extenders.url":                   {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].URL = "https://other.gpu.svc:8443/v1" }, "+   url: https://other.gpu.svc:8443/v1"},
		"extenders.verbs.filter":          {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].Verbs.Filter = "" }, "-   verbs.filter: filter"},
		"extenders.verbs.prioritize":      {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].Verbs.Prioritize = "p2" }, "+   verbs.prioritize: p2"},
		"extenders.verbs.preempt":         {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].Verbs.Preempt = "preempt" }, "+   verbs.preempt: preempt"},
		"extenders.verbs.bind":            {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].Verbs.Bind = "bind" }, "+   verbs.bind: bind"},
		"extenders.weight":                {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].Weight = ptr.To[int32](3) }, "+   weight: 3"},
		"extenders.timeoutSeconds":        {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].TimeoutSeconds = ptr.To[int32](1) }, "+   timeout: 1s"},
		"extenders.tls.caBundle":          {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].TLS.CABundle = slices.Repeat(caBundle, 2) }, "+   tls.caBundle: "},
		"extenders.tls.serverName":        {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].TLS.ServerName = "example.com" }, "+   tls.serverName: example.com"},
		"extenders.nodeCacheCapable":      {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].NodeCacheCapable = true }, "+   nodeCacheCapable: true"},
		"extenders.managedResources.name": {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].ManagedResources[0].Name = "example.com/tpu" }, "+   managedResources: example.com/tpu"},
		"extenders.failurePolicy":         {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].FailurePolicy = v1alpha1.FailurePolicyIgnore }, "+   failurePolicy: Ignore"},
		"extenders.tls.clientCertificateRef.name": {func(s *v1alpha1.SchedulingProfileSpec) {
			s.Extenders[0].TLS.ClientCertificateRef = &v1alpha1.SecretReference{Name: "client"}
		}, "+   tls.clientCertificateRef.name: client"},
		"extenders.managedResources.ignoredByScheduler": {func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders[0].ManagedResources[0].IgnoredByScheduler = true }, "+ - example.com/gpu"},
	}
	for _, field := range fieldsOf(reflect.TypeFor[v1alpha1.SchedulingProfileSpec](), "") {
		if _, there := edits[field]; !there {
			t.Errorf("no edit changes spec.%s", field)
		}
	}
	there := kubectltest.Profile("batch", 6, withEverything(caBundle))
	for field, c := range edits {
		t.Run(field, func(t *testing.T) {
			revision := kubectltest.Revision(there, 1)
			env := kubectltest.New(t, kubectltest.Running(there.DeepCopy(), revision, 6), revision)
			spec := there.Spec.DeepCopy()
			c.edit(spec)
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			env.In = profileYAML + "spec: " + string(text)
			if printed := env.Run(New, "-f", "-"); !strings.Contains(printed, "\n"+c.want) {
				t.Errorf("want %q in:\n%s", c.want, printed)
			}
		})
	}
}

// fieldsOf returns the paths of the fields of a type. Plugins, their arguments and namespaces
// are one each: they are compared as what they mean.
func fieldsOf(of reflect.Type, path string) (fields []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || slices.Contains([]string{"plugins", "pluginConfig", "allowedNamespaces"}, path) {
		return []string{path}
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		fields = append(fields, fieldsOf(of.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
	}
	return fields
}

func TestDiff(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		in      string
		fail    func(string, any) error
	}{
		"no difference":                         {objects: testObjects(), in: unchangedYAML},
		"no difference, with arguments inline":  {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {enabled: [{name: TaintToleration, weight: 5}]}}, pluginConfig: [{name: NodeResourcesFit, args: " + mostAllocatedArgs + "}]}\n"},
		"another weight, and a disabled plugin": {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {enabled: [{name: TaintToleration, weight: 2}], disabled: [{name: ImageLocality}]}}, pluginConfig: [{name: NodeResourcesFit, configRef: {name: binpack}}]}\n"},
		"other settings and another state":      {objects: testObjects(), in: unchangedYAML[:len(unchangedYAML)-2] + ", state: Paused, queue: {maxBackoffSeconds: 60}}\n"},
		"a PluginConfig alone":                  {objects: testObjects(), in: pluginConfigYAML + "spec: {plugin: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated}}}\n"},
		"a PluginConfig without a reference":    {in: pluginConfigYAML + "spec: {plugin: NodeResourcesFit, args: {}}\n"},
		"a PluginConfig that does not exist":    {in: unchangedYAML},
		"a profile that does not exist":         {in: profileYAML},
		"no permission to list revisions": {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {disabled: [{name: ImageLocality}]}}}\n", fail: func(_ string, object any) error {
			if _, ok := object.(*appsv1.ControllerRevisionList); ok {
				return errors.New("controllerrevisions.apps is forbidden")
			}
			return nil
		}},
		"a file that is rejected":      {objects: testObjects(), in: profileYAML + "spec: {state: Resting}\n"},
		"a plugin that does not exist": {objects: testObjects(), in: profileYAML + "spec: {plugins: {score: {enabled: [{name: Nope}]}}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			env := kubectltest.New(t, c.objects...)
			env.In, env.Fail = c.in, c.fail
			kubectltest.Golden(t, name, env.Run(New, "-f", "-"), false)
		})
	}
}
