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
