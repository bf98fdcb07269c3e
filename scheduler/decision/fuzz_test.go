package decision

import (
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
)

// FuzzAnnotation reads any text as a pod's annotation, which users may change. What is read
// can be written again, within the bound, and is then read as the same but for what was left
// out of it.
func FuzzAnnotation(f *testing.F) {
	devices := []string{"gpu=gpu.example.com/n17/d0", "nic=nic.example.com/pool/d1"}
	full := Decision{
		Profile: "batch", Generation: 7, Hash: "9f3c1a2b4d", Epoch: 3, Node: "n17", Evaluated: 500, Feasible: 412, Attempts: 2, Devices: devices,
		Walk: Walk{Seq: 812, Start: 57, Order: 4294967295, Nodes: 1234, Pods: 18446744073709551615},
		Top:  []NodeScore{{Node: "n17", Score: 587, Plugins: map[string]int64{"NodeResourcesFit": 440}}, {Node: "n4", Score: -12}},
	}
	f.Add(Annotation(full))
	f.Add(Annotation(full.WithoutNodes()))
	f.Add(`{"v":1,"profile":"\u001b[31m","top":[{"plugins":{"":-9223372036854775808}},{}],"devices":["",null]}`)
	f.Add(`{"v":1,"walk":{"seq":-1}}`)
	f.Add(`{"V":1,"Profile":"x","attempts":1e2}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseAnnotation(text)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("the error says nothing")
			}
			return
		}
		written := Annotation(d)
		// The names of the API server have at most 253 characters, none of which JSON escapes.
		plain := len(d.Profile)+len(d.Node)+len(d.Hash) <= 2*253+64 && len(Annotation(Decision{Profile: d.Profile, Node: d.Node, Hash: d.Hash})) <= 2*253+64+200
		if plain && len(written) > maxAnnotation {
			t.Fatalf("%d bytes, want at most %d", len(written), maxAnnotation)
		}
		again, err := ParseAnnotation(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if len(again.Top) > len(d.Top) || len(again.Devices) > len(d.Devices) {
			t.Fatalf("%s has more than %s", written, text)
		}
		want := d
		want.Top, want.Devices = trimmedTop(d.Top, again.Top), d.Devices[:len(again.Devices)]
		if len(want.Devices) == 0 {
			want.Devices = nil
		}
		if diff := gocmp.Diff(want, again); diff != "" {
			t.Fatalf("read again (-want,+got):\n%s", diff)
		}
		if diff := gocmp.Diff(written, Annotation(again)); diff != "" {
			t.Fatalf("written again (-want,+got):\n%s", diff)
		}
	})
}

// trimmedTop returns what Annotation may leave of top, given how much it left.
func trimmedTop(top, left []NodeScore) []NodeScore {
	if len(left) == 0 {
		return nil
	}
	kept := append([]NodeScore{}, top[:len(left)]...)
	for i := range kept {
		if len(kept[i].Plugins) == 0 || len(kept) == 1 && left[0].Plugins == nil {
			kept[i].Plugins = nil
		}
	}
	return kept
}

// FuzzTruncate cuts any text. The result is within the bound and begins as the text does; of
// valid UTF-8 it is valid UTF-8.
func FuzzTruncate(f *testing.F) {
	f.Add("0/500 nodes are available", uint16(10))
	f.Add("üüüüü", uint16(4))
	f.Add("a\xffb\u2028c", uint16(3))
	f.Add("", uint16(1))
	f.Fuzz(func(t *testing.T, text string, bound uint16) {
		limit := int(bound%2048) + 1
		cut := Truncate(text, limit)
		if n := utf8.RuneCountInString(cut); n > limit || n < min(limit, utf8.RuneCountInString(text)) {
			t.Errorf("%q becomes %q with %d characters, the limit is %d", text, cut, n, limit)
		}
		checkCut(t, text, cut, "…")
		if limit > 3 {
			cut = TruncateBytes(text, limit, "…")
			if len(cut) > limit {
				t.Errorf("%q becomes %q with %d bytes, the limit is %d", text, cut, len(cut), limit)
			}
			checkCut(t, text, cut, "…")
		}
	})
}

func checkCut(t *testing.T, text, cut, mark string) {
	t.Helper()
	if utf8.ValidString(text) && !utf8.ValidString(cut) {
		t.Errorf("%q becomes %q, which is not UTF-8", text, cut)
	}
	if cut == text {
		return
	}
	kept := len(cut) - len(mark)
	if kept < 0 || cut[kept:] != mark || text[:kept] != cut[:kept] {
		t.Errorf("%q becomes %q, want its beginning and %q", text, cut, mark)
	}
}
