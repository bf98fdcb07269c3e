package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakeEtcd is etcd's gateway with some keys. A watch gets the events after its revision, and
// breaks after each answer, as when etcd is restarted.
type fakeEtcd struct {
	mu        sync.Mutex
	keys      map[string]keyValue
	events    []map[string]any
	revision  int64
	compacted int64
	watches   []int64 // the revisions from which watches began
}

// put writes a key; a nil value deletes it.
func (f *fakeEtcd) put(key string, value []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	kv := map[string]any{"key": []byte(key), "mod_revision": strconv.FormatInt(f.revision, 10)}
	event := map[string]any{"kv": kv}
	if value == nil {
		event["type"] = "DELETE"
		delete(f.keys, key)
	} else {
		kv["value"] = value
		f.keys[key] = keyValue{[]byte(key), value, f.revision}
	}
	f.events = append(f.events, event)
}

// compact forgets the events before the next revision.
func (f *fakeEtcd) compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compacted = f.revision
}

func (f *fakeEtcd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var request struct {
		Key    []byte `json:"key"`
		Limit  string `json:"limit"`
		Create struct {
			Start string `json:"start_revision"`
		} `json:"create_request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := map[string]any{"revision": strconv.FormatInt(f.revision, 10)}
	if r.URL.Path == "/v3/kv/range" {
		answer := map[string]any{"header": now}
		var kvs []keyValue
		for _, kv := range f.keys {
			if request.Limit != "" && bytes.Compare(kv.Key, request.Key) >= 0 {
				kvs = append(kvs, kv)
			}
		}
		slices.SortFunc(kvs, func(a, b keyValue) int { return bytes.Compare(a.Key, b.Key) })
		if len(kvs) > 2 { // a page is small here
			kvs, answer["more"] = kvs[:2], true
		}
		answer["kvs"] = kvs
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	start, _ := strconv.ParseInt(request.Create.Start, 10, 64)
	f.watches = append(f.watches, start)
	result := map[string]any{"header": now}
	if start <= f.compacted {
		result["canceled"], result["compact_revision"] = true, strconv.FormatInt(f.compacted, 10)
	} else if start <= f.revision {
		result["events"] = f.events[start-1:]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"result": result})
}

func startFake(t *testing.T) (*fakeEtcd, string) {
	t.Helper()
	f := &fakeEtcd{keys: map[string]keyValue{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

// stored is a pod as etcd has it.
func stored(t *testing.T, pod *corev1.Pod) []byte {
	t.Helper()
	codec := protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)
	pod = pod.DeepCopy()
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	text, err := runtime.Encode(codec, pod)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// describe is a change as "7 Pod default/a on n1".
func describe(changes []Change) (lines []string) {
	for _, c := range changes {
		line := fmt.Sprintf("%d %s", c.Revision, strings.TrimPrefix(c.Object.GetNamespace()+"/"+c.Object.GetName(), "/"))
		if pod, is := c.Object.(*corev1.Pod); is && pod.Spec.NodeName != "" {
			line += " on " + pod.Spec.NodeName
		}
		if c.Deleted {
			line += " deleted"
		}
		if c.Listed {
			line += " listed"
		}
		lines = append(lines, line)
	}
	return lines
}

func record(t *testing.T, url string, from int64) *Recorder {
	t.Helper()
	r, err := Start(t.Context(), url, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

func caughtUp(t *testing.T, r *Recorder) History {
	t.Helper()
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := r.History()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAHistoryHasEachVersionAcrossBrokenWatches(t *testing.T) {
	f, url := startFake(t)
	pod := fixture.Pod("a").Obj()
	f.put("compact_rev_key", []byte("1"))
	f.put("/registry/pods/default/a", stored(t, pod))
	r := record(t, url, 1)
	caughtUp(t, r)
	pod.Spec.NodeName = "n1"
	pod.Annotations = map[string]string{v1alpha1.AnnotationDecision: `{"epoch":3}`}
	f.put("/registry/pods/default/a", stored(t, pod))
	f.put("/registry/berth.dev/schedulingprofiles/batch", []byte(`{"apiVersion":"berth.dev/v1alpha1","kind":"SchedulingProfile","metadata":{"name":"batch"}}`))
	f.put("/registry/example.com/others/o", []byte(`{"apiVersion":"example.com/v1","kind":"Other"}`))
	f.put("/registry/secrets/default/s", []byte("not read"))
	h := caughtUp(t, r)
	if diff := cmp.Diff([]string{"2 default/a", "3 default/a on n1", "4 batch"}, describe(h.Changes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"example.com/others": 1}, h.Undecoded); diff != "" {
		t.Errorf("undecoded (-want +got):\n%s", diff)
	}
	if len(r.Binds()) != 1 || r.Binds()[0].Epoch != 3 || len(r.BoundPods()) != 1 {
		t.Errorf("binds %v of %v", r.Binds(), r.BoundPods())
	}
	f.put("/registry/pods/default/a", nil)
	h = caughtUp(t, r)
	if got := describe(h.Changes[3:]); !slices.Equal(got, []string{"7 default/a on n1 deleted"}) || len(r.BoundPods()) != 0 {
		t.Errorf("after the deletion: %q; bound: %v", got, r.BoundPods())
	}
	if len(h.Gaps) > 0 || h.Last != 7 {
		t.Errorf("gaps %v, last revision %d", h.Gaps, h.Last)
	}
}

func TestACompactedHistoryHasAGap(t *testing.T) {
	f, url := startFake(t)
	for _, name := range []string{"a", "b", "c"} {
		f.put("/registry/pods/default/"+name, stored(t, fixture.Pod(name).Obj()))
	}
	r := record(t, url, 1)
	caughtUp(t, r)
	f.mu.Lock() // no watch sees what follows
	f.revision, f.events = 5, nil
	f.keys["/registry/pods/default/b"] = keyValue{[]byte("/registry/pods/default/b"), stored(t, fixture.Pod("b").On("n1").Obj()), 4}
	delete(f.keys, "/registry/pods/default/c")
	f.compacted = 5
	f.mu.Unlock()
	h := caughtUp(t, r)
	want := []string{"1 default/a", "2 default/b", "3 default/c", "4 default/b on n1 listed", "5 default/c deleted listed"}
	if diff := cmp.Diff(want, describe(h.Changes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Gap{{After: 3, At: 5}}, h.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

func TestAHistoryBeginsWithAListWhereEtcdHasCompacted(t *testing.T) {
	for sentence, from := range map[string]int64{"all is asked for": 1, "only what comes is asked for": 0} {
		t.Run(sentence, func(t *testing.T) {
			f, url := startFake(t)
			f.put("/registry/pods/default/a", stored(t, fixture.Pod("a").Obj()))
			f.put("/registry/pods/default/a", stored(t, fixture.Pod("a").On("n1").Obj()))
			f.compact()
			h := caughtUp(t, record(t, url, from))
			if diff := cmp.Diff([]string{"2 default/a on n1 listed"}, describe(h.Changes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(h.Gaps) > 0 {
				t.Errorf("gaps %v", h.Gaps)
			}
		})
	}
}
