package eventhandlers

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/test/support/fixture"
)

// TestWhatIsCutOutIsWhatTrimDrops decodes generated objects of each kind that has a rule, with
// the trimming serializer and with the one of Kubernetes, whose objects Trim then changes.
func TestWhatIsCutOutIsWhatTrimDrops(t *testing.T) {
	random := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs)
	whole := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, outOfTree := range []bool{false, true} {
		trimming := trimmingDecoder{whole, wireRules(outOfTree), new(sharedParts)}
		for kind := range trimming.rules {
			t.Run(fmt.Sprintf("%s, out-of-tree plugins %t", kind, outOfTree), func(t *testing.T) {
				for range 200 {
					object, err := scheme.Scheme.New(v1.SchemeGroupVersion.WithKind(kind[len("v1/"):]))
					if err != nil {
						t.Fatal(err)
					}
					random.Fill(object)
					encoded := encode(t, encoder, object)
					got, gvk, err := trimming.Decode(encoded, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					want, wantGVK, err := whole.Decode(encoded, nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					trimmed(t, want, outOfTree)
					if diff := cmp.Diff(want, got); diff != "" || *gvk != *wantGVK {
						t.Fatalf("%v beside %v: -want, +got:\n%s", gvk, wantGVK, diff)
					}
				}
			})
		}
	}
}

// encoder encodes objects of the core group, with version and kind, as an API server does.
var encoder = scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), v1.SchemeGroupVersion)

// trimmed passes an object, or each of a list, through Trim.
func trimmed(t *testing.T, object runtime.Object, outOfTree bool) {
	t.Helper()
	trim := Trim(outOfTree)
	one := func(object runtime.Object) error {
		_, err := trim(object)
		return err
	}
	if !meta.IsListType(object) {
		if err := one(object); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := meta.EachListItem(object, one); err != nil {
		t.Fatal(err)
	}
}

func encode(t testing.TB, encoder runtime.Encoder, object runtime.Object) []byte {
	t.Helper()
	var encoded bytes.Buffer
	if err := encoder.Encode(object, &encoded); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

// FuzzDecodeOfTrimmed has the trimming serializer fail where that of Kubernetes does, and give
// the same object where it does not.
func FuzzDecodeOfTrimmed(f *testing.F) {
	whole := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	trimming := trimmingDecoder{whole, wireRules(false), new(sharedParts)}
	f.Add(encode(f, encoder, userPod()))
	f.Add(encode(f, encoder, &v1.PodList{Items: []v1.Pod{*userPod()}}))
	f.Add([]byte("k8s\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, _, wantErr := whole.Decode(data, nil, nil)
		got, _, err := trimming.Decode(data, nil, nil)
		if wantErr == nil && err != nil {
			t.Fatalf("error %v, and the serializer of Kubernetes has none", err)
		}
		if wantErr != nil || err != nil {
			return // what is cut out may be what Kubernetes cannot decode
		}
		if _, is := trimming.rules[kindOf(data)]; !is {
			return
		}
		trimmed(t, want, false)
		trimmed(t, got, false)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("-want, +got:\n%s", cmp.Diff(want, got))
		}
	})
}

// userPod is a pod as the API server returns it.
func userPod() *v1.Pod {
	pod := fixture.Pod("shop/web").Requests("cpu", "1").Valid()
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}
	return pod
}

// TestTheClientOfTheInformersTrims lists and watches from a server that answers as an API
// server does.
func TestTheClientOfTheInformersTrims(t *testing.T) {
	pod := userPod()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := encode(t, encoder, &v1.PodList{Items: []v1.Pod{*pod}})
		if r.URL.Query().Get("watch") == "" {
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			_, _ = w.Write(list)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		event := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: encode(t, encoder, pod)}}
		raw := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)
		frame := protobuf.LengthDelimitedFramer.NewFrameWriter(w)
		_, _ = frame.Write(encode(t, raw, &event))
	}))
	defer server.Close()
	client, err := NewClient(&restclient.Config{Host: server.URL, ContentConfig: restclient.ContentConfig{ContentType: runtime.ContentTypeProtobuf}}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := pod.DeepCopy()
	trimmed(t, want, false)
	listed, err := client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	if err != nil || len(listed.Items) != 1 {
		t.Fatalf("%v, error %v", listed, err)
	}
	if diff := cmp.Diff(want, &listed.Items[0]); diff != "" {
		t.Errorf("listed: -want, +got:\n%s", diff)
	}
	watched, err := client.CoreV1().Pods("").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	event := <-watched.ResultChan()
	if diff := cmp.Diff(runtime.Object(want), event.Object); diff != "" {
		t.Errorf("watched: -want, +got:\n%s", diff)
	}
}

// Pods of one template share what they have in common, and nothing else.
func TestPodsOfOneTemplateShareItsParts(t *testing.T) {
	whole := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	decoder := trimmingDecoder{whole, wireRules(false), new(sharedParts)}
	decode := func(pod *v1.Pod) *v1.Pod {
		object, _, err := decoder.Decode(encode(t, encoder, pod), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Trim(false)(object); err != nil { // as informers do
			t.Fatal(err)
		}
		return object.(*v1.Pod)
	}
	pod := func(name, node, image string) *v1.Pod {
		p := fixture.Pod("shop/"+name).Label("app", "web").Owner("ReplicaSet", "web").Claim("data").Image(image).Valid()
		p.Spec.NodeName = node
		return p
	}
	a, b, other := decode(pod("a", "n1", "web:1")), decode(pod("b", "n2", "web:1")), decode(pod("c", "", "web:2"))
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] || &a.OwnerReferences[0] != &b.OwnerReferences[0] {
		t.Error("pods of one template have containers or owners of their own")
	}
	if &a.Spec.Containers[0] == &other.Spec.Containers[0] || other.Spec.Containers[0].Image != "web:2" {
		t.Errorf("a pod of another template has containers %v", other.Spec.Containers)
	}
	if a.Spec.NodeName != "n1" || b.Spec.NodeName != "n2" || &a.Spec.Volumes[0] == &b.Spec.Volumes[0] {
		t.Errorf("the pods are on %q and %q, with volumes %v and %v", a.Spec.NodeName, b.Spec.NodeName, a.Spec.Volumes, b.Spec.Volumes)
	}
}

// Nodes share a status and annotations that are equal, and each label but that of their names.
func TestNodesShareWhatIsEqual(t *testing.T) {
	whole := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	decoder := trimmingDecoder{whole, wireRules(false), new(sharedParts)}
	decode := func(name, beat, group string) *v1.Node {
		node := fixture.Node(name).Label(v1.LabelHostname, name).Label("group", group).Obj()
		node.Annotations = map[string]string{"group": group}
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: beat}}
		object, _, err := decoder.Decode(encode(t, encoder, node), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return object.(*v1.Node)
	}
	a, b, other := decode("a", "at one", "blue"), decode("b", "at two", "blue"), decode("c", "at three", "red")
	for what, test := range map[string]struct{ a, b, other unsafe.Pointer }{
		"conditions":         {unsafe.Pointer(&a.Status.Conditions[0]), unsafe.Pointer(&b.Status.Conditions[0]), nil},
		"annotations":        {mapAddress(a.Annotations), mapAddress(b.Annotations), mapAddress(other.Annotations)},
		"a label's key":      {keyAddress(a.Labels, "group"), keyAddress(b.Labels, "group"), nil},
		"a label's value":    {textAddress(a.Labels["group"]), textAddress(b.Labels["group"]), textAddress(other.Labels["group"])},
		"the name of a node": {textAddress(a.Labels[v1.LabelHostname]), textAddress(a.Name), textAddress(b.Labels[v1.LabelHostname])},
	} {
		if test.a != test.b || test.a == test.other {
			t.Errorf("%s: at %p and %p, want one address; what differs is at %p", what, test.a, test.b, test.other)
		}
	}
	want := map[string]string{v1.LabelHostname: "c", "group": "red"}
	if diff := cmp.Diff(want, other.Labels); diff != "" || other.Annotations["group"] != "red" || other.Name != "c" {
		t.Errorf("%v: labels -want, +got:\n%s", other, diff)
	}
}

func mapAddress(m map[string]string) unsafe.Pointer { return reflect.ValueOf(m).UnsafePointer() }

func textAddress(text string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(text)) }

func keyAddress(labels map[string]string, wanted string) unsafe.Pointer {
	for key := range labels {
		if key == wanted {
			return textAddress(key)
		}
	}
	return nil
}

func TestSharedPartsAreBounded(t *testing.T) {
	var r recent[int]
	decoded := 0
	get := func(i int) {
		t.Helper()
		got, err := r.get(fmt.Append(nil, i), func() (int, error) { decoded++; return i, nil })
		if err != nil || got != i {
			t.Fatalf("got %d, %v; want %d", got, err, i)
		}
	}
	for i := range 10 * maxSharedParts {
		get(i)
		get(0) // which stays, since it is asked for again and again
	}
	if decoded != 10*maxSharedParts || len(r.young)+len(r.old) > 2*maxSharedParts {
		t.Errorf("%d values were decoded, %d are kept", decoded, len(r.young)+len(r.old))
	}
	kept := len(r.young)
	large := make([]byte, maxSharedSize+1)
	if got, err := r.get(large, func() (int, error) { return 1, nil }); got != 1 || err != nil || len(r.young) != kept {
		t.Errorf("a part of %d bytes: got %d, %v, and %d values are kept, want %d", len(large), got, err, len(r.young), kept)
	}
}
