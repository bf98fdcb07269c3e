package simulation

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// client is the clientset of one scheduler. It offers what Berth uses of pods;
// a call of anything else is a nil dereference, which fails the seed.
type client struct {
	clientset.Interface
	corev1.CoreV1Interface
	world *world
	life  int
}

func (c *client) CoreV1() corev1.CoreV1Interface { return c }

func (c *client) Pods(namespace string) corev1.PodInterface {
	return &podClient{world: c.world, life: c.life, namespace: namespace}
}

type podClient struct {
	corev1.PodInterface
	world     *world
	life      int
	namespace string
}

func (c *podClient) Bind(ctx context.Context, b *v1.Binding, _ metav1.CreateOptions) error {
	what := fmt.Sprintf("bind %s (version %s) to %s", keyOf(b), b.ResourceVersion, b.Target.Name)
	c.world.binds[b.UID]++
	commit, kind := c.world.sends(c.life, b)
	_, err := c.world.call(ctx, "bind", what+kind, commit)
	return err
}

func (c *podClient) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.Pod, error) {
	key := c.namespace + "/" + name
	pod, err := c.world.call(ctx, "get", "get "+key, func() (*v1.Pod, error) { return c.world.server.get(key) })
	if there := c.world.server.pods[key]; apierrors.IsForbidden(err) && there != nil {
		// Without it a patch that met a conflict is not made anew.
		c.world.untold[there.UID] = true
	}
	return pod, err
}

func (c *podClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.Pod, error) {
	key := c.namespace + "/" + name
	patch, err := readPatch(data)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("patch the status of %s: %s", key, patch)
	pod, err := c.world.call(ctx, "patch", what, func() (*v1.Pod, error) { return c.world.server.patchStatus(key, patch) })
	if apierrors.IsForbidden(err) && patch.nominates {
		c.world.untold[types.UID(patch.Metadata.UID)] = true
	}
	return pod, err
}

// readPatch reads a patch strictly: what the model does not know must not be
// taken for written.
func readPatch(data []byte) (statusPatch, error) {
	var p statusPatch
	var raw struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return p, err
	}
	for field := range raw.Status {
		if field != "nominatedNodeName" && field != "conditions" {
			return p, fmt.Errorf("the model knows no status.%s", field)
		}
	}
	_, p.nominates = raw.Status["nominatedNodeName"]
	return p, json.Unmarshal(data, &p)
}

func (p statusPatch) String() string {
	text := ""
	for _, c := range p.Status.Conditions {
		text += c.Reason + " " + c.Message
	}
	if p.nominates && p.Status.NominatedNodeName != nil {
		text += " nominated for " + *p.Status.NominatedNodeName
	} else if p.nominates {
		text += " nominated for none"
	}
	return text
}
