package eventhandlers

import (
	"bytes"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"

	"google.golang.org/protobuf/encoding/protowire"
)

// NewClient returns a client whose pods and nodes lack the fields that Trim(outOfTreePlugins)
// drops. They are cut out of the response before it is decoded, which costs less than to
// decode and drop them. Other kinds are complete. config must accept protobuf; responses in
// JSON are complete too, so that informers still need Trim.
func NewClient(config *restclient.Config, outOfTreePlugins bool) (clientset.Interface, error) {
	httpClient, err := restclient.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	all, err := clientset.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	core := restclient.CopyConfig(config)
	core.GroupVersion, core.APIPath = &v1.SchemeGroupVersion, "/api"
	core.NegotiatedSerializer = trimmingSerializer{
		restclient.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), wireRules(outOfTreePlugins), new(sharedParts),
	}
	if core.UserAgent == "" {
		core.UserAgent = restclient.DefaultKubernetesUserAgent()
	}
	rest, err := restclient.RESTClientForConfigAndClient(core, httpClient)
	if err != nil {
		return nil, err
	}
	return &trimmingClient{all, corev1client.New(rest)}, nil
}

// trimmingClient is a client with another CoreV1.
type trimmingClient struct {
	clientset.Interface
	core corev1client.CoreV1Interface
}

func (c *trimmingClient) CoreV1() corev1client.CoreV1Interface { return c.core }

// trimmingSerializer decodes protobuf without the fields that the rules cut out.
type trimmingSerializer struct {
	runtime.NegotiatedSerializer
	rules  map[string]*wireRule
	shared *sharedParts
}

func (s trimmingSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	all := s.NegotiatedSerializer.SupportedMediaTypes()
	trimmed := make([]runtime.SerializerInfo, len(all))
	copy(trimmed, all)
	for i := range trimmed {
		if trimmed[i].MediaType == runtime.ContentTypeProtobuf {
			trimmed[i].Serializer = trimmingDecoder{trimmed[i].Serializer, s.rules, s.shared}
			stream := *trimmed[i].StreamSerializer
			stream.Serializer = eventDecoder{stream.Serializer}
			trimmed[i].StreamSerializer = &stream
		}
	}
	return trimmed
}

// trimmingDecoder is the serializer of protobuf.
type trimmingDecoder struct {
	runtime.Serializer
	rules  map[string]*wireRule
	shared *sharedParts
}

// buffers are for what is left of a message and for its parts; what an object keeps of them is
// copied.
var buffers = sync.Pool{New: func() any { return new(messageBuffers) }}

type messageBuffers struct {
	left  []byte
	split parts
}

// Decode decodes what is left of data. A message that cannot be read is passed on whole, for
// the error that says why.
func (d trimmingDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	kind := kindOf(data)
	rule := d.rules[kind]
	if rule == nil {
		return d.Serializer.Decode(data, defaults, into)
	}
	b := buffers.Get().(*messageBuffers)
	defer buffers.Put(b)
	var split *parts
	if kind == "v1/Pod" || kind == "v1/Node" {
		split = &b.split
		for i := range split {
			split[i] = split[i][:0]
		}
	}
	left, ok := rule.trimObject(b.left[:0], data, split)
	if !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	b.left = left
	object, gvk, err := d.Serializer.Decode(left, defaults, into)
	if err != nil || split == nil {
		return object, gvk, err
	}
	switch o := object.(type) {
	case *v1.Pod:
		err = d.shared.addToPod(o, split)
	case *v1.Node:
		err = d.shared.addToNode(o, split)
	}
	return object, gvk, err
}

// protobufPrefix is that of an object which Kubernetes encodes as protobuf; a runtime.Unknown
// follows.
var protobufPrefix = []byte("k8s\x00")

// kindOf returns the version and the kind of an encoded object, such as v1/Pod.
func kindOf(object []byte) string {
	const typeMetaOfUnknown, versionOfTypeMeta, kindOfTypeMeta = 1, 1, 2
	unknown, is := bytes.CutPrefix(object, protobufPrefix)
	if !is {
		return ""
	}
	typeMeta := fieldOf(unknown, typeMetaOfUnknown)
	return string(fieldOf(typeMeta, versionOfTypeMeta)) + "/" + string(fieldOf(typeMeta, kindOfTypeMeta))
}

// fieldOf returns the value of the first field of this number, which is a message or a string;
// nil if there is none.
func fieldOf(message []byte, wanted protowire.Number) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		if number == wanted && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			return value
		}
		m := protowire.ConsumeFieldValue(number, kind, message[n:])
		if m < 0 {
			return nil
		}
		message = message[n+m:]
	}
	return nil
}
