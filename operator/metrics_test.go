package operator

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheFlagsDecideWhoMayReadMetrics(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for flags, want := range map[string]struct{ secure, authorized bool }{
		"":                          {true, true},
		"--metrics-cert-dir=" + dir: {true, true},
		"--metrics-secure=false":    {false, false},
	} {
		o, err := parseFlags(strings.Fields(flags))
		if err != nil {
			t.Fatal(err)
		}
		server := o.metrics.server()
		if server.SecureServing != want.secure || (server.FilterProvider != nil) != want.authorized {
			t.Errorf("%q: HTTPS %v, requests are authorized %v", flags, server.SecureServing, server.FilterProvider != nil)
		}
	}
	for flags, want := range map[string]string{
		"--metrics-cert-dir=/nowhere":                                 "--metrics-cert-dir: must hold tls.crt and tls.key",
		"--metrics-secure=false --metrics-cert-dir=" + dir:            "--metrics-cert-dir: needs --metrics-secure",
		"--metrics-bind-address=:1 --metrics-cert-dir=" + t.TempDir(): "must hold tls.crt",
	} {
		if _, err := parseFlags(strings.Fields(flags)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", flags, err)
		}
	}
}

// TestTheMetricsServerHasACertificateForLocalhost connects to what TLSOpts make of a listener,
// as controller-runtime does.
func TestTheMetricsServerHasACertificateForLocalhost(t *testing.T) {
	o, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	served := &tls.Config{}
	for _, set := range o.metrics.server().TLSOpts {
		set(served)
	}
	first, err := served.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(first.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	shaken := make(chan error, 1)
	go func() { shaken <- tls.Server(server, served).Handshake() }()
	if err := tls.Client(client, &tls.Config{ServerName: "localhost", RootCAs: roots}).Handshake(); err != nil {
		t.Error(err)
	}
	if err := <-shaken; err != nil {
		t.Error(err)
	}
}
