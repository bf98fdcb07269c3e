package eventhandlers

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// wireRule says what is cut out of an encoded message. The numbers of fields are those of
// Kubernetes' generated.proto, which never change.
type wireRule struct {
	// cut are the fields that are cut out; where only is set, all but these are.
	cut, only []protowire.Number
	// within are the rules of fields that are messages.
	within []fieldRule
	// part is where fields go that are split off, if there are parts: those in shared, or all but
	// those in sharedBut.
	part              part
	shared, sharedBut []protowire.Number
	// unless cuts out a message that has nothing left but this field.
	unless protowire.Number
}

// part is a part of a pod or of a node that is split off, since many have the same.
type part int

// The parts.
const (
	noPart part = iota
	sharedMeta
	sharedSpec
	sharedNodeStatus
	sharedAnnotations
	partCount
)

// parts are the encoded fields that were split off.
type parts [partCount][]byte

// fieldRule is the rule of a field.
type fieldRule struct {
	number protowire.Number
	rule   *wireRule
}

// wireRules returns the rules by version and kind: those of the core group that the scheduler
// watches. They cut out what Trim drops.
func wireRules(outOfTreePlugins bool) map[string]*wireRule {
	const metadata, items, managedFields, labels, annotations, ownerReferences = 1, 2, 17, 11, 12, 13
	object := &wireRule{within: []fieldRule{{metadata, &wireRule{cut: []protowire.Number{managedFields}}}}}
	pod, node := object, object
	if !outOfTreePlugins {
		nodeMeta := &wireRule{cut: []protowire.Number{managedFields}, part: sharedAnnotations, shared: []protowire.Number{annotations}}
		node = &wireRule{within: append(nodeRules(), fieldRule{metadata, nodeMeta})}
		podMeta := &wireRule{cut: []protowire.Number{managedFields}, part: sharedMeta, shared: []protowire.Number{labels, ownerReferences}}
		pod = &wireRule{within: append(podRules(), fieldRule{metadata, podMeta})}
	}
	rules := map[string]*wireRule{"v1/Pod": pod, "v1/Node": node}
	for _, kind := range []string{"Namespace", "Service", "ReplicationController", "PersistentVolume", "PersistentVolumeClaim"} {
		rules["v1/"+kind] = object
	}
	for kind, rule := range maps.Clone(rules) {
		rules[kind+"List"] = &wireRule{within: []fieldRule{{items, rule}}}
	}
	return rules
}

// nodeRules are the rules of what trimNode changes.
func nodeRules() []fieldRule {
	const (
		status = 3

		allocatable, conditions, images, declaredFeatures = 2, 4, 8, 14

		conditionType, conditionStatus = 1, 2
	)
	kept := []protowire.Number{allocatable, conditions, images, declaredFeatures}
	condition := &wireRule{only: []protowire.Number{conditionType, conditionStatus}}
	return []fieldRule{{status, &wireRule{
		only: kept, part: sharedNodeStatus, shared: kept, within: []fieldRule{{conditions, condition}},
	}}}
}

// podRules are the rules of what trimPod changes.
func podRules() []fieldRule {
	const (
		spec, status = 2, 3

		volumes, specContainers, nodeName, specInitContainers = 1, 2, 10, 20

		volumeName, volumeSource = 1, 2

		gitRepo, secret, nfs, downwardAPI, configMap, projected = 5, 6, 7, 16, 19, 26

		command, args, workingDir, env, volumeMounts, livenessProbe, readinessProbe, lifecycle = 3, 4, 5, 7, 9, 10, 11, 12

		terminationMessagePath, envFrom, terminationMessagePolicy, startupProbe = 13, 19, 20, 22

		bindMountOptions = 8

		statusContainers, statusInitContainers, statusEphemeralContainers = 8, 10, 13

		name, allocatedResources, resources = 1, 10, 11
	)
	source := &wireRule{cut: []protowire.Number{gitRepo, secret, nfs, downwardAPI, configMap, projected}}
	volume := &wireRule{within: []fieldRule{{volumeSource, source}}, unless: volumeName}
	container := &wireRule{
		cut: []protowire.Number{
			command, args, workingDir, env, livenessProbe, readinessProbe, lifecycle,
			terminationMessagePath, envFrom, terminationMessagePolicy, startupProbe,
		},
		within: []fieldRule{{volumeMounts, &wireRule{only: []protowire.Number{bindMountOptions}}}},
	}
	containerStatus := &wireRule{only: []protowire.Number{name, allocatedResources, resources}}
	return []fieldRule{
		{spec, &wireRule{part: sharedSpec, sharedBut: []protowire.Number{volumes, nodeName}, within: []fieldRule{{volumes, volume}, {specContainers, container}, {specInitContainers, container}}}},
		{status, &wireRule{
			cut:    []protowire.Number{statusEphemeralContainers},
			within: []fieldRule{{statusContainers, containerStatus}, {statusInitContainers, containerStatus}},
		}},
	}
}

// trimObject appends an encoded object to dst, without what the rule cuts out or splits off;
// with nil, nothing is split off. It returns false where the object cannot be read.
func (r *wireRule) trimObject(dst, object []byte, split *parts) ([]byte, bool) {
	const rawOfUnknown = 2
	envelope := wireRule{within: []fieldRule{{rawOfUnknown, r}}}
	return envelope.trim(append(dst, protobufPrefix...), object[len(protobufPrefix):], split)
}

// trim is trimObject for a message.
func (r *wireRule) trim(dst, message []byte, split *parts) (left []byte, ok bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return dst, false
		}
		m := protowire.ConsumeFieldValue(number, kind, message[n:])
		if m < 0 {
			return dst, false
		}
		whole := message[:n+m]
		message = message[n+m:]
		if r.cutsOut(number) {
			continue
		}
		to := &dst
		if split != nil && r.splitsOff(number) {
			to = &split[r.part]
		}
		within := r.ruleOf(number)
		if within == nil || kind != protowire.BytesType {
			*to = append(*to, whole...)
			continue
		}
		value, _ := protowire.ConsumeBytes(whole[n:])
		if *to, ok = within.trimEmbedded(*to, whole[:n], value, split); !ok {
			return dst, false
		}
	}
	return dst, true
}

// trimEmbedded is trim for a message within another: its tag and its length come first.
func (r *wireRule) trimEmbedded(dst, tag, message []byte, split *parts) ([]byte, bool) {
	var unknown [10]byte
	before := len(dst)
	dst = append(dst, tag...)
	start, reserved := len(dst), protowire.SizeVarint(uint64(len(message)))
	dst, ok := r.trim(append(dst, unknown[:reserved]...), message, split)
	if !ok {
		return dst, false
	}
	if r.unless != 0 && r.isEmptyBut(dst[start+reserved:]) {
		return dst[:before], true
	}
	length := len(dst) - start - reserved
	needed := protowire.SizeVarint(uint64(length))
	copy(dst[start+needed:], dst[start+reserved:])
	protowire.AppendVarint(dst[:start], uint64(length))
	return dst[:start+needed+length], true
}

func (r *wireRule) cutsOut(number protowire.Number) bool {
	if r.only != nil {
		return !slices.Contains(r.only, number)
	}
	return slices.Contains(r.cut, number)
}

// isEmptyBut reports whether a message has no field but the one that unless names; a message
// within it that is empty does not count.
func (r *wireRule) isEmptyBut(message []byte) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		m := protowire.ConsumeFieldValue(number, kind, message[n:])
		if number != r.unless {
			if value, _ := protowire.ConsumeBytes(message[n:]); kind != protowire.BytesType || len(value) > 0 {
				return false
			}
		}
		message = message[n+m:]
	}
	return true
}

func (r *wireRule) splitsOff(number protowire.Number) bool {
	if r.sharedBut != nil {
		return !slices.Contains(r.sharedBut, number)
	}
	return slices.Contains(r.shared, number)
}

// ruleOf returns the rule of a field; nil if it has none.
func (r *wireRule) ruleOf(number protowire.Number) *wireRule {
	for i := range r.within {
		if r.within[i].number == number {
			return r.within[i].rule
		}
	}
	return nil
}
