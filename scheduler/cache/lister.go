package cache

import (
	"fmt"

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

// PodGroupStates lists the pods of PodGroups as they are now, not as of UpdateSnapshot.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return s.groups.PodGroupStates() }

// PodGroups lists the PodGroups as they are now.
func (s *Snapshot) PodGroups() fwk.PodGroupLister { return s.groups.PodGroups() }

// CompositePodGroupStates returns an empty lister, as without the feature gate
// CompositePodGroup.
func (s *Snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return s.groups.CompositePodGroupStates()
}

// CompositePodGroups returns an empty lister, like CompositePodGroupStates.
func (s *Snapshot) CompositePodGroups() fwk.CompositePodGroupLister {
	return s.groups.CompositePodGroups()
}

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
