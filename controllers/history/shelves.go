package history

import (
	"context"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

// +kubebuilder:rbac:groups=apps,namespace=system,resources=controllerrevisions,verbs=list;create;update;delete

// cluster keeps revisions in Berth's namespace.
type cluster struct{ v1.ControllerRevisionInterface }

func (c *cluster) list(ctx context.Context, profile string) ([]appsv1.ControllerRevision, error) {
	selector := v1alpha1.LabelProfile
	if profile != "" {
		selector = labels.Set{v1alpha1.LabelProfile: profile}.String()
	}
	list, err := c.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c *cluster) create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return c.Create(ctx, r, metav1.CreateOptions{})
}

func (c *cluster) update(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	return c.Update(ctx, r, metav1.UpdateOptions{})
}

func (c *cluster) delete(ctx context.Context, r *appsv1.ControllerRevision) error {
	return c.Delete(ctx, r.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
}

// memory keeps revisions as long as the process lives. Nothing fails.
type memory struct {
	mu      sync.Mutex
	entries []appsv1.ControllerRevision
}

func (m *memory) list(_ context.Context, profile string) ([]appsv1.ControllerRevision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []appsv1.ControllerRevision
	for i := range m.entries {
		if profile == "" || m.entries[i].Labels[v1alpha1.LabelProfile] == profile {
			found = append(found, *m.entries[i].DeepCopy())
		}
	}
	return found, nil
}

func (m *memory) create(_ context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, *r.DeepCopy())
	return r.DeepCopy(), nil
}

func (m *memory) update(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	_ = m.delete(ctx, r)
	return m.create(ctx, r)
}

func (m *memory) delete(_ context.Context, r *appsv1.ControllerRevision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.DeleteFunc(m.entries, func(e appsv1.ControllerRevision) bool { return e.Name == r.Name })
	return nil
}
