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
}

// fieldRule is the rule of a field.
type fieldRule struct {
	number protowire.Number
	rule   *wireRule
}

// wireRules returns the rules by version and kind: those of the core group that the scheduler
// watches. They cut out what Trim drops.
func wireRules(outOfTreePlugins bool) map[string]*wireRule {
	const metadata, items, managedFields = 1, 2, 17
	object := &wireRule{within: []fieldRule{{metadata, &wireRule{cut: []protowire.Number{managedFields}}}}}
	pod := object
	if !outOfTreePlugins {
		pod = &wireRule{within: append(podRules(), object.within...)}
	}
	rules := map[string]*wireRule{"v1/Pod": pod}
	for _, kind := range []string{"Node", "Namespace", "Service", "ReplicationController", "PersistentVolume", "PersistentVolumeClaim"} {
		rules["v1/"+kind] = object
	}
	for kind, rule := range maps.Clone(rules) {
		rules[kind+"List"] = &wireRule{within: []fieldRule{{items, rule}}}
	}
	return rules
}

// podRules are the rules of what trimPod changes.
func podRules() []fieldRule {
	const (
		spec, status = 2, 3

		specContainers, specInitContainers = 2, 20

		command, args, env, livenessProbe, readinessProbe, lifecycle, envFrom, startupProbe = 3, 4, 7, 10, 11, 12, 19, 22

		statusContainers, statusInitContainers, statusEphemeralContainers = 8, 10, 13

		name, allocatedResources, resources = 1, 10, 11
	)
	container := &wireRule{cut: []protowire.Number{command, args, env, livenessProbe, readinessProbe, lifecycle, envFrom, startupProbe}}
	containerStatus := &wireRule{only: []protowire.Number{name, allocatedResources, resources}}
	return []fieldRule{
		{spec, &wireRule{within: []fieldRule{{specContainers, container}, {specInitContainers, container}}}},
		{status, &wireRule{
			cut:    []protowire.Number{statusEphemeralContainers},
			within: []fieldRule{{statusContainers, containerStatus}, {statusInitContainers, containerStatus}},
		}},
	}
}

// trimObject appends an encoded object to dst, without what the rule cuts out. It returns
// false where the object cannot be read.
func (r *wireRule) trimObject(dst, object []byte) ([]byte, bool) {
	const rawOfUnknown = 2
	envelope := wireRule{within: []fieldRule{{rawOfUnknown, r}}}
	return envelope.trim(append(dst, protobufPrefix...), object[len(protobufPrefix):])
}

// trim appends a message to dst, without what the rule cuts out. It returns false where the
// message cannot be read.
func (r *wireRule) trim(dst, message []byte) (left []byte, ok bool) {
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
		within := r.ruleOf(number)
		if within == nil || kind != protowire.BytesType {
			dst = append(dst, whole...)
			continue
		}
		value, _ := protowire.ConsumeBytes(whole[n:])
		if dst, ok = within.trimEmbedded(append(dst, whole[:n]...), value); !ok {
			return dst, false
		}
	}
	return dst, true
}

// trimEmbedded is trim for a message within another: its length comes first.
func (r *wireRule) trimEmbedded(dst, message []byte) ([]byte, bool) {
	var unknown [10]byte
	start, reserved := len(dst), protowire.SizeVarint(uint64(len(message)))
	dst, ok := r.trim(append(dst, unknown[:reserved]...), message)
	if !ok {
		return dst, false
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

// ruleOf returns the rule of a field; nil if it has none.
func (r *wireRule) ruleOf(number protowire.Number) *wireRule {
	for i := range r.within {
		if r.within[i].number == number {
			return r.within[i].rule
		}
	}
	return nil
}
