package explainer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/api/v1alpha1"
)

const (
	schedulingDecisions = "schedulingdecisions"
	// requestTimeout is how long one request may take.
	requestTimeout = 10 * time.Second
	// pageSize is how many objects one list request returns.
	pageSize = "500"

	acceptMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	acceptObjects      = "application/json"
)

// +kubebuilder:rbac:groups=berth.dev,resources=schedulingdecisions,verbs=get;list;create;patch;delete

// NewClient returns the client that writes SchedulingDecisions. It connects as config
// says. Its own rate limit is a second safeguard, since the explainer limits its writes
// itself.
func NewClient(config *restclient.Config) (restclient.Interface, error) {
	config = restclient.CopyConfig(config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	// Twice the rate of writes: an object of another pod is read before it is replaced.
	config.QPS, config.Burst = 2*float32(time.Second/writeInterval), 50
	config.Timeout = requestTimeout
	client, err := restclient.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for SchedulingDecisions: %w", err)
	}
	return client, nil
}

// decisionClient sends each request once: the caller decides about retries, since it
// knows what else waits. The responses hold metadata only.
type decisionClient struct {
	rest    restclient.Interface
	limiter *writeLimiter
}

// create creates the object and returns its UID.
func (c *decisionClient) create(ctx context.Context, object *v1alpha1.SchedulingDecision) (types.UID, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	if err := c.limiter.acquire(ctx); err != nil {
		return "", err
	}
	created, err := doMetadataRequest(ctx, c.rest.Post().Namespace(object.Namespace).Resource(schedulingDecisions).
		SetHeader("Content-Type", "application/json").Body(body))
	return created.UID, err
}

// update replaces the status of the object of that name, in one request. owner is the index of
// the pod among the object's owners. The request fails as Invalid when the object belongs to
// another pod, or the pod has another index. It returns the object's UID.
func (c *decisionClient) update(ctx context.Context, object *v1alpha1.SchedulingDecision, owner int) (types.UID, error) {
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": fmt.Sprintf("/metadata/ownerReferences/%d/uid", owner), "value": ownerOf(object)},
		{"op": "add", "path": "/status", "value": object.Status},
	})
	if err != nil {
		return "", err
	}
	if err := c.limiter.acquire(ctx); err != nil {
		return "", err
	}
	updated, err := doMetadataRequest(ctx, c.rest.Patch(types.JSONPatchType).Namespace(object.Namespace).Resource(schedulingDecisions).Name(object.Name).Body(body))
	return updated.UID, err
}

// get returns the metadata of an object.
func (c *decisionClient) get(ctx context.Context, name types.NamespacedName) (metav1.PartialObjectMetadata, error) {
	return doMetadataRequest(ctx, c.rest.Get().Namespace(name.Namespace).Resource(schedulingDecisions).Name(name.Name))
}

// delete deletes the object of that name if it has that UID.
func (c *decisionClient) delete(ctx context.Context, name types.NamespacedName, object types.UID) error {
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &object},
	})
	if err != nil {
		return err
	}
	if err := c.limiter.acquire(ctx); err != nil {
		return err
	}
	_, err = doMetadataRequest(ctx, c.rest.Delete().Namespace(name.Namespace).Resource(schedulingDecisions).Name(name.Name).
		SetHeader("Content-Type", "application/json").Body(body))
	return err
}

// list returns a page of all objects; token is empty for the first page. With
// acceptMetadataList the objects have no status.
func (c *decisionClient) list(ctx context.Context, accept, token string) (page v1alpha1.SchedulingDecisionList, err error) {
	err = doRequest(ctx, c.rest.Get().Resource(schedulingDecisions).SetHeader("Accept", accept).
		Param("limit", pageSize).Param("continue", token), &page)
	return page, err
}

// doMetadataRequest sends a request whose response is the metadata of one object.
func doMetadataRequest(ctx context.Context, request *restclient.Request) (object metav1.PartialObjectMetadata, err error) {
	err = doRequest(ctx, request.SetHeader("Accept", acceptMetadata), &object)
	return object, err
}

// doRequest sends a request once, and decodes the response.
func doRequest(ctx context.Context, request *restclient.Request, into any) error {
	result := request.MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil { // the error of Raw lacks the server's message
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// ownerOf returns the UID of the pod that owns an object; empty when no pod does.
func ownerOf(object metav1.Object) types.UID {
	if i := ownerIndex(object); i >= 0 {
		return object.GetOwnerReferences()[i].UID
	}
	return ""
}

// ownerIndex returns the index of the pod among the owners of an object; -1 when no pod owns it. A
// webhook may have put another owner before the pod.
func ownerIndex(object metav1.Object) int {
	return slices.IndexFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == "v1" && owner.Kind == "Pod"
	})
}
