package allocation

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
)

// result returns the allocation of each claim, in the order of the claims, from a solution.
func (s *search) result() ([]resourceapi.AllocationResult, error) {
	results := make([]resourceapi.AllocationResult, len(s.plan.claims))
	rest := s.chosen
	for i := range results {
		n := devicesOf(rest, i)
		devices := rest[:n]
		rest = rest[n:]
		result := &results[i]
		result.Devices.Results = make([]resourceapi.DeviceRequestAllocationResult, n)
		for j := range devices {
			result.Devices.Results[j] = devices[j].result()
		}
		result.Devices.Config = s.configOf(&s.plan.claims[i])
		var err error
		if result.NodeSelector, err = nodeSelectorOf(&s.plan.claims[i], devices, s.node.Name); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (c *choice) result() resourceapi.DeviceRequestAllocationResult {
	a, d := c.alternative, c.device
	result := resourceapi.DeviceRequestAllocationResult{
		Request: a.fullName(), Driver: d.id.Driver.String(), Pool: d.id.Pool.String(), Device: d.id.Device.String(),
		Tolerations: a.tolerations, BindingConditions: d.api.BindingConditions, BindingFailureConditions: d.api.BindingFailureConditions,
	}
	if a.admin {
		result.AdminAccess = ptr.To(true)
	}
	if d.shareable {
		result.ShareID = ptr.To[types.UID](uuid.NewUUID())
	}
	if len(c.consumed) > 0 {
		result.ConsumedCapacity = make(map[resourceapi.QualifiedName]resource.Quantity, len(c.consumed))
		for i := range c.consumed {
			result.ConsumedCapacity[c.consumed[i].name] = c.consumed[i].value.DeepCopy()
		}
	}
	return result
}

// configOf returns the configuration of the classes that a claim uses, each once, then that
// of the claim for the requests and alternatives that are allocated. Configuration for all
// requests names none.
func (s *search) configOf(p *claimPlan) []resourceapi.DeviceAllocationConfiguration {
	var list []resourceapi.DeviceAllocationConfiguration
	type part struct{ from, to int }
	ofClass := map[string]part{}
	for i := range p.requests {
		a := &p.requests[i].alternatives[s.selected[p.requests[i].number]]
		known, found := ofClass[a.class.Name]
		for j := known.from; j < known.to; j++ {
			list[j].Requests = append(list[j].Requests, a.fullName())
		}
		if found {
			continue
		}
		from := len(list)
		for j := range a.class.Spec.Config {
			list = append(list, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClass, Requests: []string{a.fullName()}, DeviceConfiguration: a.class.Spec.Config[j].DeviceConfiguration,
			})
		}
		ofClass[a.class.Name] = part{from, len(list)}
	}
	for i := range p.claim.Spec.Devices.Config {
		config := &p.claim.Spec.Devices.Config[i]
		concerns := func(r requestPlan) bool { return s.isNamed(&r, config.Requests) }
		if len(config.Requests) == 0 || slices.ContainsFunc(p.requests, concerns) {
			list = append(list, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClaim, Requests: config.Requests, DeviceConfiguration: config.DeviceConfiguration,
			})
		}
	}
	for i := range list {
		unnamed := func(r requestPlan) bool { return !s.isNamed(&r, list[i].Requests) }
		if len(list[i].Requests) > 0 && !slices.ContainsFunc(p.requests, unnamed) {
			list[i].Requests = nil
		}
	}
	return list
}

// isNamed reports whether names has a request, or its alternative that is allocated.
func (s *search) isNamed(r *requestPlan, names []string) bool {
	return slices.Contains(names, r.name) ||
		r.firstAvailable && slices.Contains(names, r.alternatives[s.selected[r.number]].fullName())
}

// nodeSelectorOf returns the nodes on which the devices of a claim are available together;
// nil for all. The error says that a slice has a selector which the API does not allow.
func nodeSelectorOf(p *claimPlan, devices []choice, node string) (*v1.NodeSelector, error) {
	var term v1.NodeSelectorTerm
	for i := range devices {
		local, selector := devices[i].device.nodes()
		if local {
			return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}}, nil
		}
		if selector == nil || len(selector.NodeSelectorTerms) == 0 {
			continue
		}
		if len(selector.NodeSelectorTerms) > 1 {
			return nil, tooManyTerms(p, selector)
		}
		term.MatchFields = addRequirements(term.MatchFields, selector.NodeSelectorTerms[0].MatchFields)
		term.MatchExpressions = addRequirements(term.MatchExpressions, selector.NodeSelectorTerms[0].MatchExpressions)
	}
	if len(term.MatchFields) == 0 && len(term.MatchExpressions) == 0 {
		return nil, nil
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}, nil
}

// nodes returns whether a device is local to one node, otherwise what selects its nodes.
func (d *device) nodes() (local bool, selector *v1.NodeSelector) {
	name, selector := d.slice.api.Spec.NodeName, d.slice.api.Spec.NodeSelector
	if d.slice.perDevice {
		name, selector = d.api.NodeName, d.api.NodeSelector
	}
	return name != nil || ptr.Deref(d.api.BindsToNode, false), selector
}

// addRequirements adds those that are not there yet.
func addRequirements(to, from []v1.NodeSelectorRequirement) []v1.NodeSelectorRequirement {
	for i := range from {
		same := func(other v1.NodeSelectorRequirement) bool {
			return other.Key == from[i].Key && other.Operator == from[i].Operator && sets.New(other.Values...).Equal(sets.New(from[i].Values...))
		}
		if !slices.ContainsFunc(to, same) {
			to = append(to, from[i])
		}
	}
	return to
}

// checkNodeSelectors returns the error that the result of a solution would have.
func (s *search) checkNodeSelectors() error {
	rest := s.chosen
	for i := range s.plan.claims {
		n := devicesOf(rest, i)
		for j := range rest[:n] {
			local, selector := rest[j].device.nodes()
			if local {
				break
			}
			if selector != nil && len(selector.NodeSelectorTerms) > 1 {
				return tooManyTerms(&s.plan.claims[i], selector)
			}
		}
		rest = rest[n:]
	}
	return nil
}

// devicesOf returns how many devices at the start of list are of a claim.
func devicesOf(list []choice, claim int) (n int) {
	for n < len(list) && list[n].claim == claim {
		n++
	}
	return n
}

func tooManyTerms(p *claimPlan, selector *v1.NodeSelector) error {
	return fmt.Errorf("create NodeSelector for claim %s: unsupported ResourceSlice.NodeSelector with %d terms", p.claim.Name, len(selector.NodeSelectorTerms))
}
