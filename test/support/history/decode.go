package history

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// registry is the prefix of the keys of all objects.
const registry = "/registry/"

// unread are the resources that no check reads: they are not decoded.
var unread = []string{
	"apiextensions.k8s.io", "apiregistration.k8s.io", "clusterrolebindings", "clusterroles", "endpoints", "endpointslices",
	"flowschemas", "masterleases", "prioritylevelconfigurations", "ranges", "rolebindings", "roles", "secrets", "serviceaccounts",
	"servicecidrs", "ipaddresses", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "deployments", "jobs",
}

// decoder decodes etcd's form of objects: Kubernetes' own are protobuf with a prefix, custom
// resources are JSON.
var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
})

// resourceOf returns the resource in a key, with its group where the key has one: "pods" of
// /registry/pods/shop/web, "berth.dev/schedulingprofiles". It is empty for a key without an
// object.
func resourceOf(key string) string {
	rest, is := strings.CutPrefix(key, registry)
	if !is {
		return ""
	}
	first, rest, _ := strings.Cut(rest, "/")
	if !strings.Contains(first, ".") {
		return first
	}
	second, _, _ := strings.Cut(rest, "/")
	return first + "/" + second
}

// isRead reports whether a check may read the objects of a resource.
func isRead(resource string) bool {
	group, _, _ := strings.Cut(resource, "/")
	for _, name := range unread {
		if name == group {
			return false
		}
	}
	return resource != ""
}

// Decode returns the object of a value in etcd, without what no check reads.
func Decode(value []byte, revision int64) (client.Object, error) {
	decoded, _, err := decoder().Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	object, is := decoded.(client.Object)
	if !is {
		return nil, fmt.Errorf("%T is not an object", decoded)
	}
	object.SetResourceVersion(strconv.FormatInt(revision, 10))
	object.SetManagedFields(nil)
	if node, is := object.(*corev1.Node); is {
		node.Status.Images = nil
	}
	return object, nil
}
