package scopedinformers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// groups implements the methods of SharedInformerFactory that return the informers of an
// API group, all on top of the Factory's InformerFor.
type groups struct {
	factory internalinterfaces.SharedInformerFactory
}

// Admissionregistration returns the informers of its group.
func (g groups) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(g.factory, metav1.NamespaceAll, nil)
}

// Internal returns the informers of its group.
func (g groups) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(g.factory, metav1.NamespaceAll, nil)
}

// Apps returns the informers of its group.
func (g groups) Apps() apps.Interface {
	return apps.New(g.factory, metav1.NamespaceAll, nil)
}

// Autoscaling returns the informers of its group.
func (g groups) Autoscaling() autoscaling.Interface {
	return autoscaling.New(g.factory, metav1.NamespaceAll, nil)
}

// Batch returns the informers of its group.
func (g groups) Batch() batch.Interface {
	return batch.New(g.factory, metav1.NamespaceAll, nil)
}

// Certificates returns the informers of its group.
func (g groups) Certificates() certificates.Interface {
	return certificates.New(g.factory, metav1.NamespaceAll, nil)
}

// Coordination returns the informers of its group.
func (g groups) Coordination() coordination.Interface {
	return coordination.New(g.factory, metav1.NamespaceAll, nil)
}

// Core returns the informers of its group.
func (g groups) Core() core.Interface {
	return core.New(g.factory, metav1.NamespaceAll, nil)
}

// Discovery returns the informers of its group.
func (g groups) Discovery() discovery.Interface {
	return discovery.New(g.factory, metav1.NamespaceAll, nil)
}

// Events returns the informers of its group.
func (g groups) Events() events.Interface {
	return events.New(g.factory, metav1.NamespaceAll, nil)
}

// Extensions returns the informers of its group.
func (g groups) Extensions() extensions.Interface {
	return extensions.New(g.factory, metav1.NamespaceAll, nil)
}

// Flowcontrol returns the informers of its group.
func (g groups) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(g.factory, metav1.NamespaceAll, nil)
}

// Lifecycle returns the informers of its group.
func (g groups) Lifecycle() lifecycle.Interface {
	return lifecycle.New(g.factory, metav1.NamespaceAll, nil)
}

// Networking returns the informers of its group.
func (g groups) Networking() networking.Interface {
	return networking.New(g.factory, metav1.NamespaceAll, nil)
}

// Node returns the informers of its group.
func (g groups) Node() node.Interface {
	return node.New(g.factory, metav1.NamespaceAll, nil)
}

// Policy returns the informers of its group.
func (g groups) Policy() policy.Interface {
	return policy.New(g.factory, metav1.NamespaceAll, nil)
}

// Rbac returns the informers of its group.
func (g groups) Rbac() rbac.Interface {
	return rbac.New(g.factory, metav1.NamespaceAll, nil)
}

// Resource returns the informers of its group.
func (g groups) Resource() resource.Interface {
	return resource.New(g.factory, metav1.NamespaceAll, nil)
}

// Scheduling returns the informers of its group.
func (g groups) Scheduling() scheduling.Interface {
	return scheduling.New(g.factory, metav1.NamespaceAll, nil)
}

// Storage returns the informers of its group.
func (g groups) Storage() storage.Interface {
	return storage.New(g.factory, metav1.NamespaceAll, nil)
}

// Storagemigration returns the informers of its group.
func (g groups) Storagemigration() storagemigration.Interface {
	return storagemigration.New(g.factory, metav1.NamespaceAll, nil)
}
