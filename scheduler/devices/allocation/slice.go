package allocation

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// poolID identifies a pool: names of pools are unique for each driver.
type poolID struct {
	driver, pool draapi.UniqueString
}

func (id poolID) String() string { return id.driver.String() + "/" + id.pool.String() }

// deviceSlice is one version of a ResourceSlice. It does not change.
type deviceSlice struct {
	api  *resourceapi.ResourceSlice
	pool poolID
	// slot is the slice's place in tables by slice. No two slices in the index have the
	// same one at the same time, but a slice that was replaced may have it too.
	slot int
	// node selects the nodes of all devices, unless perDevice is set.
	node      nodeMatcher
	perDevice bool
	// ignored says that a device has compatibility groups, which is a feature that is
	// off: the slice offers nothing, and its pool is incomplete.
	ignored bool
	// devices are not offered if the slice has counters: the API allows only either.
	devices []device
}

// device is one device of a slice.
type device struct {
	api   *resourceapi.Device
	slice *deviceSlice
	id    structured.DeviceID
	// index is the device's place in the slice.
	index int
	// node selects the nodes of the device where its slice leaves that to devices.
	node *nodeMatcher
	// shareable says that several claims can have shares of the device.
	shareable bool
	// plain says that the device is neither shareable nor consumes counters.
	plain bool
	// wholeCapacity says that each capacity is consumed as a whole where nothing is
	// requested, so that the device needs no check.
	wholeCapacity bool
}

func newDeviceSlice(api *resourceapi.ResourceSlice, slot int) *deviceSlice {
	spec := &api.Spec
	s := &deviceSlice{
		api: api, slot: slot,
		pool:      poolID{draapi.MakeUniqueString(spec.Driver), draapi.MakeUniqueString(spec.Pool.Name)},
		node:      newNodeMatcher(spec.NodeName, spec.AllNodes, spec.NodeSelector),
		perDevice: ptr.Deref(spec.PerDeviceNodeSelection, false),
		ignored:   hasCompatibilityGroups(api),
		devices:   make([]device, len(spec.Devices)),
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		s.devices[i] = device{
			api: d, slice: s, index: i,
			id:        structured.DeviceID{Driver: s.pool.driver, Pool: s.pool.pool, Device: draapi.MakeUniqueString(d.Name)},
			shareable: ptr.Deref(d.AllowMultipleAllocations, false), wholeCapacity: consumesWhole(d.Capacity),
		}
		s.devices[i].plain = !s.devices[i].shareable && len(d.ConsumesCounters) == 0
		if s.perDevice {
			matcher := newNodeMatcher(d.NodeName, d.AllNodes, d.NodeSelector)
			s.devices[i].node = &matcher
		}
	}
	return s
}

func hasCompatibilityGroups(slice *resourceapi.ResourceSlice) bool {
	for i := range slice.Spec.Devices {
		for j := range slice.Spec.Devices[i].ConsumesCounters {
			if len(slice.Spec.Devices[i].ConsumesCounters[j].CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}

func (s *deviceSlice) name() string { return s.api.Name }

// localTo returns the name of the only node that can use the slice, "" if there is none.
func (s *deviceSlice) localTo() string { return ptr.Deref(s.api.Spec.NodeName, "") }

// hasCounters reports whether the slice has counters of its pool, and so no devices.
func (s *deviceSlice) hasCounters() bool { return len(s.api.Spec.SharedCounters) > 0 }

// offersTo reports whether a node can use devices of the slice.
func (s *deviceSlice) offersTo(node *v1.Node) (bool, error) {
	if s.node.kind != selectsNothing {
		match, err := s.node.matches(node)
		if err != nil {
			return false, fmt.Errorf("failed to perform node selection for slice %s: %w", s.name(), err)
		}
		return match, nil
	}
	if !s.perDevice {
		return false, nil // selected in a way that this version does not know
	}
	for i := range s.devices {
		match, err := s.devices[i].node.matches(node)
		if err != nil {
			return false, fmt.Errorf("failed to perform node selection for device %s in slice %s: %w", s.devices[i].api.String(), s.name(), err)
		}
		if match {
			return true, nil
		}
	}
	return false, nil
}

// What a nodeMatcher looks at.
const (
	selectsNothing = iota
	selectsByName
	selectsAll
	selectsByLabels
)

// nodeMatcher selects nodes as a slice or a device does.
type nodeMatcher struct {
	kind     int
	name     string
	selector *nodeaffinity.NodeSelector
	err      error
}

func newNodeMatcher(name *string, all *bool, selector *v1.NodeSelector) nodeMatcher {
	switch {
	case ptr.Deref(name, "") != "":
		return nodeMatcher{kind: selectsByName, name: *name}
	case ptr.Deref(all, false):
		return nodeMatcher{kind: selectsAll}
	case selector != nil:
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			err = fmt.Errorf("failed to parse node selector %s: %w", selector.String(), err)
		}
		return nodeMatcher{kind: selectsByLabels, selector: parsed, err: err}
	}
	return nodeMatcher{}
}

// matches reports whether a node is selected. The error says that the selector is invalid.
func (m *nodeMatcher) matches(node *v1.Node) (bool, error) {
	switch m.kind {
	case selectsByName:
		return node.Name == m.name, nil
	case selectsAll:
		return true, nil
	case selectsByLabels:
		if m.err != nil {
			return false, m.err
		}
		return m.selector.Match(node), nil
	}
	return false, nil
}
