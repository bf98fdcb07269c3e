package cache

import (
	"fmt"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"
)

// The Snapshot is the SharedLister that plugins get from their Handle.
var (
	_ fwk.SharedLister   = &Snapshot{}
	_ fwk.NodeInfoLister = nodeLister{}
)

// NodeInfos lists the nodes.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return nodeLister{s} }

// StorageInfos answers questions about claims in use.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return storageLister{s} }

// PodGroupStates knows of no group: groups are not scheduled yet.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return noPodGroupStates{} }

// PodGroups knows of no group: groups are not scheduled yet.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return noPodGroups{} }

// CompositePodGroupStates knows of no group: groups are not scheduled yet.
func (s *Snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositePodGroupStates{}
}

// CompositePodGroups knows of no group: groups are not scheduled yet.
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

// Empty, as the contract asks while InterPodAffinityHostnameFastPath is off.
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

// IsPVCUsedByPods looks at every node: only pods with a claim that one pod may
// use at a time ask.
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
