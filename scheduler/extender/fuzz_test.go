package extender

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// cannedAnswer is a transport whose responses are all the same.
type cannedAnswer struct {
	status      int
	contentType string
	body        []byte
}

func (a cannedAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {a.contentType}}, Request: r, ContentLength: -1,
		Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// maxErrorLength is more than the text of an error of an extender may have: its limit is
// that of a message, and the rest has a fixed text.
const maxErrorLength = maxMessageBytes + 128

// checkMessage checks a text that users read and that an extender may have written.
func checkMessage(t *testing.T, text string) {
	t.Helper()
	if text == "" || len(text) > maxErrorLength || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("%q (%d bytes) is not a line of at most %d bytes that can be printed", text, len(text), maxErrorLength)
	}
}

// victimsOnA are a preemptor, node a with pods of several priorities, and the plan to evict
// one of them.
func victimsOnA() (preemptor *v1.Pod, node fwk.NodeInfo, planned map[string]*extenderv1.Victims) {
	pod := func(uid string, priority int32) *v1.Pod {
		return fixture.Pod(uid).UID(uid).Priority(priority).On("a").Obj()
	}
	info := framework.NewNodeInfo(pod("low", 1), pod("lower", 0), pod("equal", 5))
	info.SetNode(fixture.Node("a").Obj())
	return fixture.Pod("p").Priority(5).Obj(), info, map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{pod("low", 1)}}}
}

// FuzzAnswers has an extender answer with any status, type and body, of any size. An answer
// that is accepted is one about the nodes and pods of the request, within its bounds; any
// other is an error with a text that can be shown.
func FuzzAnswers(f *testing.F) {
	const filter, prioritize, preempt, bind = 0, 1, 2, 3
	for _, seed := range []struct {
		verb byte
		body string
	}{
		{filter + 4, `{"NodeNames": ["c", "a"], "FailedNodes": {"b": "no gpu"}}`},
		{filter, `{"Nodes": {"items": [{"metadata": {"name": "b"}}]}, "FailedAndUnresolvableNodes": {"a": "never\n", "c": "` + strings.Repeat("ü", 300) + `"}}`},
		{filter, `{"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": ["a", "b", ""]}`},
		{filter + 4, `{"Nodes": {"items": [{"metadata": {"name": "z"}}]}, "NodeNames": ["c", "a"], "FailedNodes": {"b": "no gpu"}}`},
		{filter + 4, `{"NodeNames": ["a", "a"], "Error": ""}`},
		{filter, `{"NodeNames": null, "Nodes": {"items": null}, "FailedNodes": {"a": ""}}`},
		{filter, `{"Error": "out of\norder \u001b[31m"}`},
		{prioritize, `[{"Host": "a", "Score": 0}, {"host": "b", "score": 10}]`},
		{prioritize, `[{"Host": "a", "Score": -1}]`},
		{prioritize, `[{"Host": "z", "Score": 9223372036854775807}]`},
		{prioritize, `[{"Host": "a", "Score": 9223372036854775807}, {"Host": "b", "Score": 1}, {"Host": "b", "Score": 1}]`},
		{preempt, `{"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "lower"}], "NumPDBViolations": -1}}}`},
		{preempt, `{"NodeNameToMetaVictims": {"a": null, "b": {"Pods": [null]}}}`},
		{bind, `{"Error": "no"}`},
		{bind, `{}`},
	} {
		f.Add(seed.verb, uint16(200), "application/json", []byte(seed.body), uint32(0))
	}
	f.Add(byte(filter), uint16(307), "", []byte(""), uint32(0))
	f.Add(byte(prioritize), uint16(200), "text/html", []byte("[]"), uint32(0))
	f.Add(byte(prioritize), uint16(200), "application/json; charset=utf-8", []byte("[]"), uint32(answerBaseBytes))
	f.Add(byte(prioritize), uint16(200), "text/plain", []byte("[]"), uint32(2*answerBaseBytes))

	signed := httptest.NewTLSServer(nil)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed.Certificate().Raw})
	signed.Close()
	f.Fuzz(func(t *testing.T, verb byte, status uint16, contentType string, body []byte, padding uint32) {
		if padding %= 3 * answerBaseBytes; padding > 0 {
			body = append(bytes.Clone(body), bytes.Repeat([]byte(" "), int(padding))...)
		}
		config := Config{
			Name: "gpu", URL: "https://" + host, Filter: "filter", Prioritize: "prioritize", Preempt: "preempt", Bind: "bind", Weight: 3,
			Timeout: time.Hour, CABundle: bundle, NodeCacheCapable: verb&4 != 0,
		}
		c := client(t, config, localOptions())
		c.http = &http.Client{Transport: cannedAnswer{int(status), contentType, body}, CheckRedirect: c.http.CheckRedirect}
		var err error
		switch verb % 4 {
		case filter:
			err = checkFilter(t, c)
		case prioritize:
			err = checkPrioritize(t, c)
		case preempt:
			err = checkPreempt(t, c)
		default:
			err = c.Bind(&v1.Binding{Target: v1.ObjectReference{Name: "a"}})
		}
		if err == nil && (status != http.StatusOK || len(body) > 3*answerBaseBytes) {
			t.Fatalf("accepted %d bytes with status %d", len(body), status)
		}
		if kind, message := failureOf(t, err); err != nil {
			checkMessage(t, message)
			checkMessage(t, err.Error())
			if kind == Unreachable || kind == Late || kind == Crowded {
				t.Fatalf("%s: the extender answered", err)
			}
		}
	})
}

// checkFilter filters three nodes. Each of them is feasible or has a reason, and is not both.
func checkFilter(t *testing.T, c *Client) error {
	t.Helper()
	all := nodes("a", "b", "c")
	fit, failed, unresolvable, err := c.Filter(pod(), all)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, name := range nodeNames(fit) {
		times[name]++
	}
	for _, reasons := range []extenderv1.FailedNodesMap{failed, unresolvable} {
		for name, reason := range reasons {
			times[name]++
			checkMessage(t, reason)
		}
	}
	if len(times) != len(all) || times["a"] != 1 || times["b"] != 1 || times["c"] != 1 {
		t.Fatalf("feasible %v, failed %v, unresolvable %v: want each node once", nodeNames(fit), failed, unresolvable)
	}
	return nil
}

// checkPrioritize scores two nodes. Each has at most one score, from 0 to 10.
func checkPrioritize(t *testing.T, c *Client) error {
	t.Helper()
	list, weight, err := c.Prioritize(pod(), nodes("a", "b"))
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, host := range *list {
		times[host.Host]++
		if host.Score < 0 || host.Score > 10 {
			t.Fatalf("score %d", host.Score)
		}
	}
	if weight != c.config.Weight || times["a"] > 1 || times["b"] > 1 || times["a"]+times["b"] != len(*list) {
		t.Fatalf("weight %d, scores %v: want at most one for each node", weight, *list)
	}
	return nil
}

// checkPreempt asks for victims on node a. They are pods on that node of a lower priority.
func checkPreempt(t *testing.T, c *Client) error {
	t.Helper()
	preemptor, node, planned := victimsOnA()
	chosen, err := c.ProcessPreemption(preemptor, planned, nodeLister{nodes: map[string]fwk.NodeInfo{"a": node}})
	if err != nil {
		return err
	}
	for name, victims := range chosen {
		seen := map[string]bool{}
		for _, victim := range victims.Pods {
			if name != "a" || victim.Spec.NodeName != "a" || corev1.PodPriority(victim) >= corev1.PodPriority(preemptor) || seen[victim.Name] {
				t.Fatalf("victim %s of priority %d on node %s", victim.Name, corev1.PodPriority(victim), name)
			}
			seen[victim.Name] = true
		}
	}
	return nil
}

// FuzzURL has any text as the URL of an extender. One that is accepted is read by net/url and
// net/http as it is written, with an https scheme and a host that is no address of this host,
// a link, or a group.
func FuzzURL(f *testing.F) {
	for _, text := range []string{
		"https://gpu.example:8443/v1", "https://[fd00::1]:443/a/b", "https://10.0.0.7", "http://gpu.example", "https://gpu.example:0/", "https://user@gpu.example",
		"https://2130706433/", "https://0x7f.1/", "https://127.1", "https://[::ffff:169.254.169.254]", "https://[2002:7f00:1::]", "https://gpu.example/../x",
		"https://localhost", "https://a.LOCALHOST:1", "https://gpu.example:65536", "https://[::1%25eth0]/", "https://gpu..example", "https://gpu.example.",
		"https://[64:ff9b::7f00:1]/", "https://[2001::80ff:fffe]", "https://0300.1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := CheckURL(text); err != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.String() != text {
			t.Fatalf("accepted %q, which is read as %v (%v)", text, u, err)
		}
		c := &Client{config: Config{URL: text}}
		request, err := http.NewRequest(http.MethodPost, c.verbURL("filter"), http.NoBody)
		if err != nil || request.URL.Host != u.Host || !strings.HasSuffix(request.URL.Path, "/filter") {
			t.Fatalf("accepted %q, and a verb's URL is read as %v (%v)", text, request, err)
		}
		if address, err := netip.ParseAddr(u.Hostname()); err == nil {
			checkAllowed(t, address)
		}
	})
}

// FuzzAddress has any address. One that is allowed is none of this host, of a link, or of a
// group, nor does it embed one.
func FuzzAddress(f *testing.F) {
	for _, text := range []string{"::1", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe", "10.0.0.1", "fe80::1", "ff02::1", "::"} {
		address := netip.MustParseAddr(text).As16()
		f.Add(address[:])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if address, ok := netip.AddrFromSlice(raw); ok && checkAddress(address) == "" {
			checkAllowed(t, address)
		}
	})
}

// checkAllowed checks an address that extenders may have with the predicates of net/netip.
func checkAllowed(t *testing.T, address netip.Addr) {
	t.Helper()
	plain := address.Unmap().WithZone("")
	if plain.IsLoopback() || plain.IsUnspecified() || plain.IsMulticast() || plain.IsLinkLocalUnicast() || plain.IsInterfaceLocalMulticast() {
		t.Fatalf("%v is allowed", address)
	}
	if inner, ok := embeddedAddress(plain); ok {
		checkAllowed(t, inner)
	}
}
