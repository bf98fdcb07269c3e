package fakecluster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

var configMapResource = schema.GroupResource{Resource: "configmaps"}

// ConfigMaps is a namespace of ConfigMaps: each write has a new resource version, and
// an update with another version than the stored one is a conflict. It implements Get,
// Create and Update.
type ConfigMaps struct {
	corev1.ConfigMapInterface
	cluster *Cluster
	stored  map[string]*v1.ConfigMap
}

// ConfigMaps returns an empty namespace.
func (c *Cluster) ConfigMaps() *ConfigMaps {
	return &ConfigMaps{cluster: c, stored: map[string]*v1.ConfigMap{}}
}

// Get returns what is stored.
func (m *ConfigMaps) Get(_ context.Context, name string, _ metav1.GetOptions) (*v1.ConfigMap, error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if object, ok := m.stored[name]; ok {
		return object.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(configMapResource, name)
}

// Create stores a new ConfigMap. It returns AlreadyExists if there is one of that name.
func (m *ConfigMaps) Create(_ context.Context, object *v1.ConfigMap, _ metav1.CreateOptions) (*v1.ConfigMap, error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if _, ok := m.stored[object.Name]; ok {
		return nil, apierrors.NewAlreadyExists(configMapResource, object.Name)
	}
	return m.store(object), nil
}

// Update replaces a ConfigMap. It returns a conflict if the versions differ.
func (m *ConfigMaps) Update(_ context.Context, object *v1.ConfigMap, _ metav1.UpdateOptions) (*v1.ConfigMap, error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	old, ok := m.stored[object.Name]
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(configMapResource, object.Name)
	case object.ResourceVersion != old.ResourceVersion:
		return nil, apierrors.NewConflict(configMapResource, object.Name, fmt.Errorf("the version is %s", old.ResourceVersion))
	}
	return m.store(object), nil
}

// store stores a copy with a new version. The caller holds the lock.
func (m *ConfigMaps) store(object *v1.ConfigMap) *v1.ConfigMap {
	object = object.DeepCopy()
	m.cluster.setResourceVersion(object)
	m.stored[object.Name] = object
	return object.DeepCopy()
}
