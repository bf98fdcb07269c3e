package eventhandlers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"google.golang.org/protobuf/encoding/protowire"
)

// eventDecoder is the serializer of watch events. Unlike that of Kubernetes it does not copy the
// object of an event, which is most of what a start allocates: client-go decodes the object
// before it reads the next event into the same buffer.
type eventDecoder struct{ runtime.Serializer }

var watchEventKind = metav1.SchemeGroupVersion.WithKind("WatchEvent")

// Decode decodes an event into one whose object is part of data. What is no such event is left
// to the serializer of Kubernetes.
func (d eventDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, is := into.(*metav1.WatchEvent)
	if !is {
		return d.Serializer.Decode(data, defaults, into)
	}
	read, ok := readEvent(data)
	if !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	*event = read
	return event, &watchEventKind, nil
}

// readEvent reads an event without a copy of its object. It returns false for a message that has
// other fields than an event, or lacks one.
func readEvent(message []byte) (event metav1.WatchEvent, ok bool) {
	const eventType, object, rawOfObject = 1, 2, 1
	for len(message) > 0 {
		number, value, rest, ok := nextField(message)
		if !ok {
			return event, false
		}
		message = rest
		switch number {
		case eventType:
			event.Type = string(value)
		case object:
			number, raw, rest, ok := nextField(value)
			if !ok || number != rawOfObject || len(rest) > 0 {
				return event, false
			}
			event.Object.Raw = raw
		default:
			return event, false
		}
	}
	return event, event.Type != "" && event.Object.Raw != nil
}

// nextField returns the first field of a message, and what follows it; false if it is not a
// message or a string.
func nextField(message []byte) (number protowire.Number, value, rest []byte, ok bool) {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 || kind != protowire.BytesType {
		return 0, nil, nil, false
	}
	value, m := protowire.ConsumeBytes(message[n:])
	if m < 0 {
		return 0, nil, nil, false
	}
	return number, value, message[n+m:], true
}
