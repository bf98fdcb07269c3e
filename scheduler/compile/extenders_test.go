package compile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/extender"
)

// caBundle is a CA certificate in the form that a spec holds.
var caBundle = func() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}()

// extenderYAML returns an extender as YAML; more are further fields.
func extenderYAML(name, verbs string, more ...string) string {
	return fmt.Sprintf("{name: %s, url: 'https://%s.gpu.svc:8443/v1', verbs: {%s}, tls: {caBundle: %s}%s}",
		name, name, verbs, caBundle, strings.Join(append([]string{""}, more...), ", "))
}

func extenderErrors(t *testing.T, spec string, permissions ExtenderPermissions) []FieldError {
	t.Helper()
	_, rejection := Profile(Input{Profile: profile(t, spec), Registry: testRegistry(), Extenders: permissions})
	if rejection == nil {
		return nil
	}
	return rejection.Errors
}

func TestInvalidExtenders(t *testing.T) {
	const invalid = "InvalidExtender"
	for name, test := range map[string]struct {
		extender    string
		permissions ExtenderPermissions
		want        []FieldError
	}{
		"a valid extender": {extender: extenderYAML("gpu", "filter: f, prioritize: p, preempt: e, bind: b"), permissions: AllExtenders},
		"a manager that allows no extenders rejects each": {
			extender: extenderYAML("gpu", "filter: f"),
			want:     []FieldError{{accepted, invalid, "spec.extenders", "extenders are off: run the manager with --enable-extenders, or leave them out"}},
		},
		"a manager that allows extenders without writes rejects preempt and bind": {
			extender: extenderYAML("gpu", "filter: f, preempt: e, bind: b"), permissions: ExtenderPermissions{Enabled: true},
			want: []FieldError{
				{accepted, invalid, "spec.extenders[0].verbs.preempt", "extenders may not preempt: run the manager with --enable-extender-writes, or leave it out"},
				{accepted, invalid, "spec.extenders[0].verbs.bind", "extenders may not bind: run the manager with --enable-extender-writes, or leave it out"},
			},
		},
		"a duplicate name is rejected": {
			extender: extenderYAML("gpu", "filter: f") + ", " + extenderYAML("gpu", "filter: g"), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[1].name", `Duplicate value: "gpu": extenders[0] already has this name`}},
		},
		"a weight of 0 is rejected": {
			extender: extenderYAML("gpu", "prioritize: p", "weight: 0"), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].weight", "must be from 1 to 2147483647, is 0"}},
		},
		"a weight without scores is rejected": {
			extender: extenderYAML("gpu", "filter: f", "weight: 2"), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].weight", "counts only with verbs.prioritize: leave it out"}},
		},
		"a name in capitals is rejected": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), "name: gpu", "name: GPU", 1), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].name", `must be a DNS label of at most 63 characters: lower-case letters, digits and '-', is "GPU"`}},
		},
		"an extender without verbs is rejected": {
			extender: extenderYAML("gpu", ""), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].verbs", "must hold at least one of filter, prioritize, preempt and bind"}},
		},
		"a private key in the caBundle is rejected": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), caBundle, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"})), 1), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].tls.caBundle", "must hold PEM certificates only, holds an invalid block of type PRIVATE KEY"}},
		},
		"a server name with a wildcard is rejected": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), "tls: {", "tls: {serverName: '*.svc', ", 1), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].tls.serverName", `must be a DNS name or an IP address, is "*.svc"`}},
		},
		"a Secret of another namespace is rejected": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), "tls: {", "tls: {clientCertificateRef: {name: kube-system/admin}, ", 1), permissions: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].tls.clientCertificateRef.name", `must be the name of a Secret, is "kube-system/admin"`}},
		},
		"a native resource of Kubernetes is rejected": {
			extender: extenderYAML("gpu", "filter: f", "managedResources: [{name: memory}, {name: requests.example.com/gpu}]"), permissions: AllExtenders,
			want: []FieldError{
				{accepted, invalid, "spec.extenders[0].managedResources[0].name", `must be an extended resource, such as example.com/gpu, is "memory"`},
				{accepted, invalid, "spec.extenders[0].managedResources[1].name", `must be an extended resource, such as example.com/gpu, is "requests.example.com/gpu"`},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, extenderErrors(t, "extenders: ["+test.extender+"]", test.permissions)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIgnorableExtendersComeLast(t *testing.T) {
	spec := "extenders: [" + strings.Join([]string{
		extenderYAML("a", "filter: f", "failurePolicy: Ignore"), extenderYAML("b", "filter: f"), extenderYAML("c", "filter: f", "failurePolicy: Ignore"), extenderYAML("d", "filter: f"),
	}, ", ") + "]"
	blueprint, rejection := Profile(Input{Profile: profile(t, spec), Registry: testRegistry(), Extenders: AllExtenders})
	if rejection != nil {
		t.Fatal(rejection.Message())
	}
	var names []string
	for _, e := range blueprint.Extenders {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"b", "d", "a", "c"}) {
		t.Errorf("the order is %v", names)
	}
}

func TestExtendersAreInTheHash(t *testing.T) {
	hash := func(spec string) string {
		b, rejection := Profile(Input{Profile: profile(t, spec), Registry: testRegistry(), Extenders: AllExtenders})
		if rejection != nil {
			t.Fatalf("%s: %s", spec, rejection.Message())
		}
		return b.Hash
	}
	seen := map[string]string{hash("{}"): "none"}
	for _, e := range []string{
		extenderYAML("gpu", "filter: f"), extenderYAML("fpga", "filter: f"), extenderYAML("gpu", "filter: g"), extenderYAML("gpu", "prioritize: p"), extenderYAML("gpu", "prioritize: p", "weight: 2"),
		extenderYAML("gpu", "filter: f", "timeoutSeconds: 6"), extenderYAML("gpu", "filter: f", "nodeCacheCapable: true"), extenderYAML("gpu", "filter: f", "failurePolicy: Ignore"),
		extenderYAML("gpu", "filter: f", "managedResources: [{name: example.com/gpu}]"), extenderYAML("gpu", "filter: f", "managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]"),
		strings.Replace(extenderYAML("gpu", "filter: f"), "tls: {", "tls: {serverName: gpu, ", 1),
	} {
		h := hash("extenders: [" + e + "]")
		if other, taken := seen[h]; taken {
			t.Errorf("%s has the hash of %s", e, other)
		}
		seen[h] = e
	}
	if hash("extenders: ["+extenderYAML("gpu", "filter: f")+"]") != hash("extenders: ["+extenderYAML("gpu", "filter: f", "weight: 1", "failurePolicy: Fail")+"]") {
		t.Error("explicit defaults change the hash")
	}
}

func TestResourcesThatOnlyAnExtenderChecksAreIgnoredInThisProfileOnly(t *testing.T) {
	const ignoring = "managedResources: [{name: example.com/b, ignoredByScheduler: true}, {name: example.com/c}]"
	configs := configs(config(t, "own", `{plugin: NodeResourcesFit, args: {ignoredResources: [example.com/a]}}`))
	ignored := func(spec string) []string {
		b, rejection := Profile(Input{Profile: profile(t, spec), Configs: configs, Registry: testRegistry(), Extenders: AllExtenders})
		if rejection != nil {
			t.Fatal(rejection.Message())
		}
		return b.Args["NodeResourcesFit"].(*configv1.NodeResourcesFitArgs).IgnoredResources
	}
	const byReference = "\npluginConfig: [{name: NodeResourcesFit, configRef: {name: own}}]"
	if got := ignored("extenders: [" + extenderYAML("gpu", "filter: f", ignoring) + "]" + byReference); !slices.Equal(got, []string{"example.com/a", "example.com/b"}) {
		t.Errorf("with ignoredResources of its own: %v", got)
	}
	if got := ignored("extenders: [" + extenderYAML("gpu", "filter: f", ignoring) + "]"); !slices.Equal(got, []string{"example.com/b"}) {
		t.Errorf("without ignoredResources of its own: %v", got)
	}
	if got := ignored("{}" + byReference[:0]); got != nil {
		t.Errorf("another profile ignores %v", got)
	}
}

func TestAnExtendersTimesAndNamesAreItsConfig(t *testing.T) {
	b, rejection := Profile(Input{
		Profile:  profile(t, "extenders: ["+strings.Replace(extenderYAML("gpu", "prioritize: p", "weight: 3", "timeoutSeconds: 7", "nodeCacheCapable: true", "managedResources: [{name: example.com/b}, {name: example.com/a}]"), "tls: {", "tls: {clientCertificateRef: {name: mine}, ", 1)+"]"),
		Registry: testRegistry(), Extenders: AllExtenders,
	})
	if rejection != nil {
		t.Fatal(rejection.Message())
	}
	bundle, _ := base64.StdEncoding.DecodeString(caBundle)
	want := []extender.Config{{
		Name: "gpu", URL: "https://gpu.gpu.svc:8443/v1", Prioritize: "p", Weight: 3, Timeout: 7 * time.Second, CABundle: bundle,
		ClientCertificate: "mine", NodeCacheCapable: true, Managed: []string{"example.com/a", "example.com/b"},
	}}
	if diff := cmp.Diff(want, b.Extenders); diff != "" {
		t.Errorf("extenders (-want +got):\n%s", diff)
	}
}
