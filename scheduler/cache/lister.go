package cache

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Snapshot is the SharedLister that plugins get from their Handle.
var (
	_ fwk.SharedLister   = &Snapshot{}
	_ fwk.NodeInfoLister = nodeLister{}
)

// NodeInfos returns a lister of the nodes.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return nodeLister{s} }

// StorageInfos returns what knows which claims are in use.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return storageLister{s} }

// PodGroupStates returns an empty lister: Berth does not schedule these groups yet.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return noPodGroupStates{} }

// PodGroups returns an empty lister: Berth does not schedule these groups yet.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return noPodGroups{} }

// CompositePodGroupStates returns an empty lister: Berth does not schedule these
// groups yet.
func (s *Snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositePodGroupStates{}
}

// CompositePodGroups returns an empty lister: Berth does not schedule these groups
// yet.
func (s *Snapshot) CompositePodGroups() fwk.CompositePodGroupLister { return noCompositePodGroups{} }

type nodeLister struct{ s *Snapshot }

func (l nodeLister) List() ([]fwk.NodeInfo, error) { return l.s.list, nil }

func (l nodeLister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	l.s.buildAffinityLists()
	return l.s.withAffinity, nil
}

func (l nodeLister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	l.s.buildAffinityLists()
	return l.s.withRequiredAntiAffinity, nil
}

// HavePodsWithRequiredNonHostScopedAntiAffinityList returns nothing, as the
// interface asks while the feature gate InterPodAffinityHostnameFastPath is off.
func (l nodeLister) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}

func (l nodeLister) Get(name string) (fwk.NodeInfo, error) {
	if n := l.s.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
}

type storageLister struct{ s *Snapshot }

// IsPVCUsedByPods scans all nodes. Plugins call it only for pods with a
// ReadWriteOncePod claim.
func (l storageLister) IsPVCUsedByPods(key string) bool {
	for _, n := range l.s.list {
		if n.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

type noPodGroupStates struct{}

func (noPodGroupStates) Get(namespace, name string) (fwk.PodGroupState, error) {
	return nil, podGroupNotFound(namespace, name)
}

type noPodGroups struct{}

func (noPodGroups) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	return nil, podGroupNotFound(namespace, name)
}

type noCompositePodGroupStates struct{}

func (noCompositePodGroupStates) Get(namespace, name string) (fwk.CompositePodGroupState, error) {
	return nil, podGroupNotFound(namespace, name)
}

type noCompositePodGroups struct{}

func (noCompositePodGroups) Get(namespace, name string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, podGroupNotFound(namespace, name)
}

func podGroupNotFound(namespace, name string) error {
	return fmt.Errorf("pod group %s/%s: %w", namespace, name, fwk.ErrNotFound)
}
