package eventhandlers

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// rawEvents is the serializer of watch events of Kubernetes.
var rawEvents = protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme)

func TestTheObjectOfAnEventIsNotCopied(t *testing.T) {
	want := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: encode(t, encoder, userPod())}}
	data := encode(t, rawEvents, &want)
	var got metav1.WatchEvent
	if into, _, err := (eventDecoder{rawEvents}).Decode(data, nil, &got); err != nil || into != &got {
		t.Fatalf("decoded %v, error %v", into, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	data[len(data)-1]++
	if raw := got.Object.Raw; raw[len(raw)-1] != data[len(data)-1] {
		t.Error("the object is a copy")
	}
}

// FuzzDecodeOfEvents has the serializer of watch events do what that of Kubernetes does.
func FuzzDecodeOfEvents(f *testing.F) {
	object := runtime.RawExtension{Raw: encode(f, encoder, userPod())}
	for _, event := range []metav1.WatchEvent{{Type: "MODIFIED", Object: object}, {Type: "BOOKMARK"}, {Object: object}, {}} {
		data := encode(f, rawEvents, &event)
		for _, more := range [][]byte{
			{},
			data,                     // the last value of a field counts
			{0x1a, 0x00},             // a field that an event does not have
			{0x12, 0x04, 'a'},        // a truncated object
			{0x12, 0x00},             // an object without content
			{0x12, 0x02, 0x0a, 0x00}, // an object of no bytes
			{0x08, 0x01},             // a type that is no string
		} {
			f.Add(slices.Concat(data, more))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got metav1.WatchEvent
		_, _, wantErr := rawEvents.Decode(data, nil, &want)
		into, _, err := (eventDecoder{rawEvents}).Decode(data, nil, &got)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, that of Kubernetes is %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" || into != &got {
			t.Fatalf("-want, +got:\n%s", diff)
		}
	})
}
