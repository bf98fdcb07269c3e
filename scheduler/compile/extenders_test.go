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

// authority is a certificate as it stands in a spec.
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

// asking writes an extender as YAML; each of more replaces or adds fields.
func extenderYAML(name, verbs string, more ...string) string {
	return fmt.Sprintf("{name: %s, url: 'https://%s.gpu.svc:8443/v1', verbs: {%s}, tls: {caBundle: %s}%s}",
		name, name, verbs, caBundle, strings.Join(append([]string{""}, more...), ", "))
}

func extenderErrors(t *testing.T, spec string, rights ExtenderPermissions) []FieldError {
	t.Helper()
	_, rejection := Profile(Input{Profile: profile(t, spec), Registry: testRegistry(), Extenders: rights})
	if rejection == nil {
		return nil
	}
	return rejection.Errors
}

func TestInvalidExtenders(t *testing.T) {
	const invalid = "InvalidExtender"
	for sentence, test := range map[string]struct {
		extender string
		rights   ExtenderPermissions
		want     []FieldError
	}{
		"all is well": {extender: extenderYAML("gpu", "filter: f, prioritize: p, preempt: e, bind: b"), rights: AllExtenders},
		"a manager that allows none refuses each": {
			extender: extenderYAML("gpu", "filter: f"),
			want:     []FieldError{{accepted, invalid, "spec.extenders", "extenders are off: run the manager with --enable-extenders, or leave them out"}},
		},
		"a manager that lets them look does not let them write": {
			extender: extenderYAML("gpu", "filter: f, preempt: e, bind: b"), rights: ExtenderPermissions{Enabled: true},
			want: []FieldError{
				{accepted, invalid, "spec.extenders[0].verbs.preempt", "extenders may not preempt: run the manager with --enable-extender-writes, or leave it out"},
				{accepted, invalid, "spec.extenders[0].verbs.bind", "extenders may not bind: run the manager with --enable-extender-writes, or leave it out"},
			},
		},
		"two of one name are told apart by nobody": {
			extender: extenderYAML("gpu", "filter: f") + ", " + extenderYAML("gpu", "filter: g"), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[1].name", `extender "gpu" is here twice: extenders[0] has the name already`}},
		},
		"a weight of 0 is refused": {
			extender: extenderYAML("gpu", "prioritize: p", "weight: 0"), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].weight", "must be from 1 to 2147483647, is 0"}},
		},
		"a weight without scores is refused": {
			extender: extenderYAML("gpu", "filter: f", "weight: 2"), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].weight", "counts only with verbs.prioritize: leave it out"}},
		},
		"a name in capitals is refused": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), "name: gpu", "name: GPU", 1), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].name", `must be a DNS label of at most 63 characters: lower-case letters, digits and '-', is "GPU"`}},
		},
		"nothing to ask is refused": {
			extender: extenderYAML("gpu", ""), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].verbs", "must hold at least one of filter, prioritize, preempt and bind"}},
		},
		"a private key among the authorities is refused": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), caBundle, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"})), 1), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].tls.caBundle", "must hold certificates as PEM and nothing else, holds a PRIVATE KEY that is none"}},
		},
		"a server name with a wildcard is refused": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), "tls: {", "tls: {serverName: '*.svc', ", 1), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].tls.serverName", `must be a DNS name or an IP address, is "*.svc"`}},
		},
		"a Secret of another namespace is refused": {
			extender: strings.Replace(extenderYAML("gpu", "filter: f"), "tls: {", "tls: {clientCertificateRef: {name: kube-system/admin}, ", 1), rights: AllExtenders,
			want: []FieldError{{accepted, invalid, "spec.extenders[0].tls.clientCertificateRef.name", `must be the name of a Secret, is "kube-system/admin"`}},
		},
		"a resource of Kubernetes' own is refused": {
			extender: extenderYAML("gpu", "filter: f", "managedResources: [{name: memory}, {name: requests.example.com/gpu}]"), rights: AllExtenders,
			want: []FieldError{
				{accepted, invalid, "spec.extenders[0].managedResources[0].name", `must be an extended resource, such as example.com/gpu, is "memory"`},
				{accepted, invalid, "spec.extenders[0].managedResources[1].name", `must be an extended resource, such as example.com/gpu, is "requests.example.com/gpu"`},
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(test.want, extenderErrors(t, "extenders: ["+test.extender+"]", test.rights)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
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
		t.Errorf("asked in the order %v", names)
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
		t.Error("defaults that are written out change the hash")
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
		t.Errorf("with its own list: %v", got)
	}
	if got := ignored("extenders: [" + extenderYAML("gpu", "filter: f", ignoring) + "]"); !slices.Equal(got, []string{"example.com/b"}) {
		t.Errorf("without: %v", got)
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
