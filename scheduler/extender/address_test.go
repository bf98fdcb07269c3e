package extender

import (
	"context"
	"encoding/pem"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// forbiddenURLs are URLs that would lead Berth to other servers than extenders. Each is
// rejected when the profile is compiled, with a message that contains want.
var forbiddenURLs = map[string]struct{ url, want string }{
	"loopback":                            {"https://127.0.0.1/", "a loopback address"},
	"another loopback address":            {"https://127.1.2.3:6443/", "a loopback address"},
	"loopback in IPv6":                    {"https://[::1]:10250/", "a loopback address"},
	"loopback in IPv6, in full":           {"https://[0:0:0:0:0:0:0:1]/", "a loopback address"},
	"unspecified":                         {"https://0.0.0.0/", "an unspecified address"},
	"unspecified in IPv6":                 {"https://[::]/", "an unspecified address"},
	"IPv4 in IPv6":                        {"https://[::ffff:127.0.0.1]/", "a loopback address"},
	"IPv4 in IPv6, in hexadecimal":        {"https://[::ffff:7f00:1]/", "a loopback address"},
	"IPv4-compatible IPv6":                {"https://[::127.0.0.1]/", "a loopback address inside of an IPv6 address"},
	"IPv4 behind NAT64":                   {"https://[64:ff9b::169.254.169.254]/", "inside of an IPv6 address"},
	"IPv4 in 6to4":                        {"https://[2002:7f00:1::]/", "a loopback address inside of an IPv6 address"},
	"IPv4 in Teredo":                      {"https://[2001:0:4136:e378:8000:63bf:5601:5601]/", "inside of an IPv6 address"},
	"one number":                          {"https://2130706433/", "ends in a number"},
	"octal":                               {"https://0177.0.0.1/", "ends in a number"},
	"one number in octal":                 {"https://017700000001/", "ends in a number"},
	"hexadecimal":                         {"https://0x7f000001/", "ends in a number"},
	"hexadecimal, in parts":               {"https://0x7f.0x0.0x0.0x1/", "ends in a number"},
	"a short form":                        {"https://127.1/", "ends in a number"},
	"leading zeros":                       {"https://127.000.000.001/", "ends in a number"},
	"the metadata of a cloud":             {"https://169.254.169.254/latest/meta-data/", "where clouds keep their metadata"},
	"the metadata of a cloud, in IPv6":    {"https://[fd00:ec2::254]/latest/meta-data/", "a cloud's metadata address"},
	"the metadata of another cloud":       {"https://100.100.100.200/", "a cloud's metadata address"},
	"link-local":                          {"https://[fe80::1]/", "a link-local address"},
	"multicast":                           {"https://224.0.0.1/", "a multicast address"},
	"broadcast":                           {"https://255.255.255.255/", "a reserved address"},
	"a user that looks like the host":     {"https://gpu.example@127.0.0.1/", "without a user"},
	"a user with a password":              {"https://gpu.example:443@169.254.169.254/", "without a user"},
	"a fragment that looks like the host": {"https://127.0.0.1#@gpu.example/", "without a user, a query or a fragment"},
	"a query":                             {"https://gpu.example/?next=https://127.0.0.1", "a query"},
	"a backslash":                         {`https://gpu.example\@127.0.0.1/`, "must be https://"},
	"an escape in the host":               {"https://127.0.0%2e1/", "must be https://"},
	"a tab in the host":                   {"https://127.0.\t0.1/", "must be https://"},
	"a line break after the URL":          {"https://gpu.example/\r\nHost: 127.0.0.1", "must be https://"},
	"digits outside ASCII":                {"https://①②⑦.⓪.⓪.①/", "must be https://"},
	"a dot at the end":                    {"https://127.0.0.1./", "not a DNS name"},
	"a dot at the end of a name":          {"https://localhost./", "not a DNS name"},
	"localhost":                           {"https://localhost:8443/", "is this host"},
	"a subdomain of localhost":            {"https://gpu.LOCALHOST/", "is this host"},
	"a zone":                              {"https://[fe80::1%25eth0]/", "must be https://"},
	"no TLS":                              {"http://gpu.example/", `the scheme is "http"`},
	"a file":                              {"file:///etc/passwd", `the scheme is "file"`},
	"gopher":                              {"gopher://gpu.example:70/_GET", `the scheme is "gopher"`},
	"a socket":                            {"unix:///run/containerd.sock", `the scheme is "unix"`},
	"no scheme":                           {"//gpu.example/", "must be https://"},
	"no host":                             {"https:///v1", "must be https://"},
	"port 0":                              {"https://gpu.example:0/", "the port must be from 1 to 65535"},
	"a port above 65535":                  {"https://gpu.example:65536/", "the port must be from 1 to 65535"},
	"no port after the colon":             {"https://gpu.example:/", "no port after"},
	"a path with ..":                      {"https://gpu.example/v1/../../admin", "must not contain the segment"},
	"an IPv4 address in brackets":         {"https://[127.0.0.1]/", "must be https://"},
}

func TestCheckURL(t *testing.T) {
	for name, c := range forbiddenURLs {
		t.Run(name, func(t *testing.T) {
			err := CheckURL(c.url)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.url, err, c.want)
			}
		})
	}
	for _, url := range []string{
		"https://gpu-extender.gpu.svc:8443/v1", "https://10.96.0.17", "https://192.168.1.2:443/", "https://172.16.0.1/a/b",
		"https://[fd12:3456::1]:8443/v1", "https://[2002:0a00:0001::1]/", "https://100.64.0.1/", "https://gpu.example./"[:19],
	} {
		if err := CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A name is checked when it is dialled, by the addresses that it has then.
func TestForbiddenAddressesAreNotDialled(t *testing.T) {
	s := serve(t, answer(`{"NodeNames": ["a"]}`))
	apiServer := netip.MustParseAddrPort("10.96.0.1:" + strings.Split(s.Listener.Addr().String(), ":")[1])
	for name, addresses := range map[string]string{
		"a loopback address":                    "127.0.0.1",
		"one of several":                        "10.1.2.3 127.0.0.1",
		"in IPv6":                               "::1",
		"IPv4-mapped":                           "::ffff:127.0.0.1",
		"cloud metadata":                        "169.254.169.254",
		"cloud metadata in IPv6":                "fd00:ec2::254",
		"behind NAT64":                          "64:ff9b::7f00:1",
		"in 6to4":                               "2002:a9fe:a9fe::",
		"unspecified":                           "0.0.0.0",
		"a link-local address with a zone":      "fe80::1%lo",
		"the API server's address and port":     "10.96.0.1",
		"the API server's address, IPv4-mapped": "::ffff:10.96.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			o := localOptions()
			o.Allow, o.Forbidden = nil, []netip.AddrPort{apiServer}
			o.Lookup = func(context.Context, string) (found []netip.Addr, err error) {
				for text := range strings.FieldsSeq(addresses) {
					found = append(found, netip.MustParseAddr(text))
				}
				return found, nil
			}
			_, err := client(t, s.config(), o).dial(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(s.config().URL, "https://"), "/v1"))
			if err == nil || !strings.Contains(err.Error(), "not allowed for extenders") {
				t.Errorf("%v", err)
			}
		})
	}
	if len(s.requests) > 0 {
		t.Errorf("a server got requests: %v", s.requests)
	}
}

// The addresses of a name are checked again for each connection.
func TestANameIsLookedUpForEachConnection(t *testing.T) {
	s := serve(t, answer(`{"NodeNames": ["a"]}`))
	allowed, o := true, localOptions()
	o.Allow = func(netip.AddrPort) error {
		if allowed {
			return nil // as if the server were on another host
		}
		return &forbiddenError{host, checkAddress(netip.MustParseAddr("127.0.0.1"))}
	}
	c := client(t, s.config(), o)
	if _, _, _, err := c.Filter(pod(), nodes("a")); err != nil {
		t.Fatal(err)
	}
	allowed = false
	_ = c.Close() // an open connection is not checked again
	if kind, _ := failureOf(t, filterError(c)); kind != Unreachable || len(s.requests) != 1 {
		t.Errorf("%s, %d requests", kind, len(s.requests))
	}
}

func filterError(c *Client) error {
	_, _, _, err := c.Filter(pod(), nodes("a"))
	return err
}

func TestCheckConnect(t *testing.T) {
	s := serve(t, answer(`{}`))
	c := client(t, s.config(), Options{})
	if err := c.checkConnect("tcp", "127.0.0.1:443", nil); err == nil {
		t.Error("checkConnect allows a loopback address")
	}
	if err := c.checkConnect("tcp", "10.0.0.1:443", nil); err != nil {
		t.Error(err)
	}
}

func TestProxiesAreIgnored(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	s := serve(t, answer(`{"NodeNames": ["a"]}`))
	if err := filterError(client(t, s.config(), localOptions())); err != nil {
		t.Error(err)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	good := Config{Name: "gpu", URL: "https://gpu.example/", Filter: "f", Timeout: time.Second, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: selfSigned().Raw})}
	noCA, elsewhere, secret := good, good, good
	noCA.CABundle, elsewhere.URL, secret.ClientCertificate = nil, "https://127.0.0.1/", "mine"
	for name, c := range map[string]Config{"no CA certificate": noCA, "a loopback URL": elsewhere, "a client certificate without a reader of Secrets": secret} {
		if _, err := New(t.Context(), "p", c, Options{}); err == nil {
			t.Errorf("%s: New returned no error", name)
		}
	}
}
