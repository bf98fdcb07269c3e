package history

import (
	"context"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

// +kubebuilder:rbac:groups=apps,namespace=system,resources=controllerrevisions,verbs=list;create;update;delete

// allProfiles selects the revisions of all profiles.
var allProfiles = labelSelector(v1alpha1.LabelProfile, selection.Exists)

// ofProfile selects the revisions of one profile.
func ofProfile(name string) labels.Selector {
	return labelSelector(v1alpha1.LabelProfile, selection.Equals, name)
}

// withHashes selects the revisions with one of the hashes, of all profiles.
func withHashes(hashes []string) labels.Selector {
	return labelSelector(v1alpha1.LabelHash, selection.In, hashes...)
}

// labelSelector returns a selector with one requirement. An invalid requirement, such
// as one with a value that no label may have, selects nothing.
func labelSelector(label string, operator selection.Operator, values ...string) labels.Selector {
	r, err := labels.NewRequirement(label, operator, values)
	if err != nil {
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*r)
}

// clusterStore stores revisions as objects in Berth's namespace. A request whose answer is lost
// ends after callTimeout.
type clusterStore struct{ v1.ControllerRevisionInterface }

func (c *clusterStore) list(ctx context.Context, which labels.Selector) ([]appsv1.ControllerRevision, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: which.String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c *clusterStore) create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.Create(ctx, r, metav1.CreateOptions{})
}

func (c *clusterStore) update(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.Update(ctx, r, metav1.UpdateOptions{})
}

func (c *clusterStore) delete(ctx context.Context, r *appsv1.ControllerRevision) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
}

// memoryStore keeps revisions as long as the process lives. Its methods return no
// errors. It is safe for concurrent use.
type memoryStore struct {
	mu      sync.Mutex
	entries []appsv1.ControllerRevision
}

func (m *memoryStore) list(_ context.Context, which labels.Selector) ([]appsv1.ControllerRevision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []appsv1.ControllerRevision
	for i := range m.entries {
		if which.Matches(labels.Set(m.entries[i].Labels)) {
			found = append(found, *m.entries[i].DeepCopy())
		}
	}
	return found, nil
}

func (m *memoryStore) create(_ context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, *r.DeepCopy())
	return r.DeepCopy(), nil
}

func (m *memoryStore) update(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	_ = m.delete(ctx, r)
	return m.create(ctx, r)
}

func (m *memoryStore) delete(_ context.Context, r *appsv1.ControllerRevision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.DeleteFunc(m.entries, func(e appsv1.ControllerRevision) bool { return e.Name == r.Name })
	return nil
}
