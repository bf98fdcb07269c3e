package operator

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/extender"
)

func TestTheFlagsSetTheRightsOfExtenders(t *testing.T) {
	for flags, want := range map[string]compile.ExtenderPermissions{
		"":                   {},
		"--enable-extenders": {Enabled: true},
		"--enable-extenders --enable-extender-writes": {Enabled: true, Writes: true},
	} {
		o, err := parseFlags(strings.Fields(flags))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.extenderPermissions(); got != want {
			t.Errorf("%q: %+v", flags, got)
		}
	}
	if _, err := parseFlags([]string{"--enable-extender-writes"}); err == nil || !strings.Contains(err.Error(), "needs --enable-extenders") {
		t.Errorf("--enable-extender-writes alone: %v", err)
	}
}

func TestClientCertificatesAreTLSSecretsOfBerthsNamespace(t *testing.T) {
	secret := func(namespace, name string, kind v1.SecretType) *v1.Secret {
		return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", ResourceVersion: "7"}, Type: kind,
			Data: map[string][]byte{"tls.crt": []byte("chain"), "tls.key": []byte("key")}}
	}
	read := ClientCertificates(fake.NewClientset(
		secret("berth-system", "mine", v1.SecretTypeTLS), secret("berth-system", "token", v1.SecretTypeOpaque), secret("shop", "theirs", v1.SecretTypeTLS),
	), "berth-system")
	got, err := read(t.Context(), "mine")
	if diff := cmp.Diff(extender.Certificate{Version: "u/7", Chain: []byte("chain"), Key: []byte("key")}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, words := range map[string]string{"token": "its type must be kubernetes.io/tls, is Opaque", "theirs": "not found"} {
		if _, err := read(t.Context(), name); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPIServerAddresses(t *testing.T) {
	for host, want := range map[string][]netip.AddrPort{
		"https://10.96.0.1:443":    {netip.MustParseAddrPort("10.96.0.1:443")},
		"https://10.96.0.1":        {netip.MustParseAddrPort("10.96.0.1:443")},
		"https://[fd00::1]:6443":   {netip.MustParseAddrPort("[fd00::1]:6443")},
		"https://nobody.invalid/x": nil,
	} {
		if diff := cmp.Diff(want, apiServerAddresses(&restclient.Config{Host: host}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", host, diff)
		}
	}
}
