package allocation

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// plan is what claims request, with all that is the same for each node. It does not change.
type plan struct {
	claims []claimPlan
	// alternatives and requests are how many there are in all claims.
	alternatives, requests int
	// needsReference says that the public allocator allocates the claims: the plan has
	// nothing else.
	needsReference bool
	// mayViolateAll says that a constraint may make a request for all devices an error.
	mayViolateAll bool
	// mostConstraints is the largest number of constraints that apply to an alternative, and
	// devices the number of devices that the alternatives want, or may get.
	mostConstraints, devices int
}

// stepsPerTry is how many steps of the attempt's budget a try costs: it looks at each
// constraint, and at each device that was chosen before.
func (p *plan) stepsPerTry() int64 {
	return int64(1 + p.mostConstraints + p.devices/devicesPerStep)
}

// claimPlan is one claim.
type claimPlan struct {
	claim       *resourceapi.ResourceClaim
	requests    []requestPlan
	constraints []constraint
	// err says that a constraint is not known.
	err error
}

// requestPlan is one request.
type requestPlan struct {
	name string
	// number counts the requests of all claims.
	number int
	// firstAvailable says that one of several alternatives is allocated; otherwise there
	// is one.
	firstAvailable bool
	alternatives   []alternative
}

// alternative is a request, or a subrequest of one.
type alternative struct {
	claim *claimPlan
	// number counts the alternatives of all claims.
	number int
	name   string
	// parent is the name of the request if this is a subrequest.
	parent string
	// err says that the alternative cannot be allocated on any node.
	err error
	// class is nil if there is none of the name className.
	class     *resourceapi.DeviceClass
	className string
	wantsAll  bool
	count     int
	admin     bool
	// selectors are those of the class, then those of the request.
	selectors   []selector
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	shape       *shape
	// constraints are the places of those that apply.
	constraints []int
}

// selector is one selector of a class or claim.
type selector struct {
	expression *expression
	// ofClass says that the class has it, index its place there or in the request.
	ofClass bool
	index   int
}

// fullName is the name in results.
func (a *alternative) fullName() string {
	if a.parent == "" {
		return a.name
	}
	return a.parent + "/" + a.name
}

// spec are the fields that requests and subrequests share.
type spec struct {
	name, class string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	admin       *bool
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	hasDerived  bool
	parent      string
}

func specOfRequest(r *resourceapi.DeviceRequest) spec {
	e := r.Exactly
	return spec{
		name: r.Name, class: e.DeviceClassName, mode: e.AllocationMode, count: e.Count, admin: e.AdminAccess,
		selectors: e.Selectors, tolerations: e.Tolerations, capacity: e.Capacity, hasDerived: len(e.DerivedAttributes) > 0,
	}
}

func specOfSubRequest(parent string, r *resourceapi.DeviceSubRequest) spec {
	return spec{
		parent: parent, name: r.Name, class: r.DeviceClassName, mode: r.AllocationMode, count: r.Count,
		selectors: r.Selectors, tolerations: r.Tolerations, capacity: r.Capacity, hasDerived: len(r.DerivedAttributes) > 0,
	}
}

// needsReference reports whether the public allocator has to allocate claims, because they
// have requests that the API server accepts in no version which is supported: of neither
// known type, or for a negative number of devices.
func needsReference(claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
			if len(r.FirstAvailable) > 0 {
				return slices.ContainsFunc(r.FirstAvailable, func(sub resourceapi.DeviceSubRequest) bool { return sub.Count < 0 })
			}
			return r.Exactly == nil || r.Exactly.Count < 0
		})
	})
}

// planner makes a plan.
type planner struct {
	classes     structured.DeviceClassLister
	expressions *expressions
	shapes      *shapes
	plan        *plan
}

func (b *planner) planOf(claims []*resourceapi.ResourceClaim) *plan {
	b.plan = &plan{claims: make([]claimPlan, len(claims))}
	for i, claim := range claims {
		b.addClaim(&b.plan.claims[i], claim)
	}
	return b.plan
}

func (b *planner) addClaim(c *claimPlan, claim *resourceapi.ResourceClaim) {
	c.claim = claim
	c.constraints, c.err = constraintsOf(claim)
	c.requests = make([]requestPlan, len(claim.Spec.Devices.Requests))
	for i := range c.requests {
		r, api := &c.requests[i], &claim.Spec.Devices.Requests[i]
		*r = requestPlan{name: api.Name, number: b.plan.requests, firstAvailable: len(api.FirstAvailable) > 0}
		b.plan.requests++
		if !r.firstAvailable {
			r.alternatives = []alternative{b.alternativeOf(c, specOfRequest(api))}
			continue
		}
		for j := range api.FirstAvailable {
			r.alternatives = append(r.alternatives, b.alternativeOf(c, specOfSubRequest(api.Name, &api.FirstAvailable[j])))
		}
	}
}

func (b *planner) alternativeOf(c *claimPlan, s spec) alternative {
	a := alternative{
		claim: c, number: b.plan.alternatives, name: s.name, parent: s.parent, className: s.class, count: int(s.count), admin: ptr.Deref(s.admin, false),
		wantsAll: s.mode == resourceapi.DeviceAllocationModeAll, tolerations: s.tolerations, capacity: s.capacity,
	}
	b.plan.alternatives++
	if a.class, a.err = b.check(c, &s); a.err != nil {
		return a
	}
	a.selectors = b.selectorsOf(b.selectorsOf(nil, a.class.Spec.Selectors, true), s.selectors, false)
	a.shape = b.shapes.of(&a)
	for i := range c.constraints {
		if c.constraints[i].appliesTo(&a) {
			a.constraints = append(a.constraints, i)
		}
	}
	b.plan.mostConstraints = max(b.plan.mostConstraints, len(a.constraints))
	if a.wantsAll {
		b.plan.devices += resourceapi.AllocationResultsMaxSize
	} else {
		b.plan.devices += min(a.count, resourceapi.AllocationResultsMaxSize)
	}
	b.plan.mayViolateAll = b.plan.mayViolateAll || a.wantsAll && len(a.constraints) > 0
	return a
}

// check returns the class of a request, or the error that kube-scheduler has for it.
func (b *planner) check(c *claimPlan, s *spec) (*resourceapi.DeviceClass, error) {
	request := func() string { return fmt.Sprintf("claim %s, request %s", klog.KObj(c.claim), s.name) }
	if s.hasDerived {
		return nil, fmt.Errorf("%s: cannot handle request with derived attributes, the feature is disabled", request())
	}
	for i := range s.selectors {
		if s.selectors[i].CEL == nil {
			return nil, fmt.Errorf("%s, selector #%d: CEL expression empty (unsupported selector type?)", request(), i)
		}
	}
	if s.class == "" {
		return nil, fmt.Errorf("%s: missing device class name (unsupported request type?)", request())
	}
	class, err := b.classes.Get(s.class)
	if err != nil {
		return nil, fmt.Errorf("%s: could not retrieve device class %s: %w", request(), s.class, err)
	}
	if s.mode != resourceapi.DeviceAllocationModeAll && s.mode != resourceapi.DeviceAllocationModeExactCount {
		return nil, fmt.Errorf("%s: unsupported count mode %s", request(), s.mode)
	}
	return class, nil
}

func (b *planner) selectorsOf(list []selector, selectors []resourceapi.DeviceSelector, ofClass bool) []selector {
	for i := range selectors {
		list = append(list, selector{b.expressions.get(selectors[i].CEL.Expression), ofClass, i})
	}
	return list
}

// constraint is one constraint of a claim.
type constraint struct {
	// requests are the names of the requests and subrequests to which it applies; it
	// applies to all if there are none.
	requests []string
	// attribute is the full name, domain and id its parts.
	attribute  resourceapi.QualifiedName
	domain, id string
	// distinct says that values must differ; otherwise they must be equal.
	distinct bool
}

// constraintsOf returns the constraints of a claim. The error says that one is of no known
// type.
func constraintsOf(claim *resourceapi.ResourceClaim) ([]constraint, error) {
	list := make([]constraint, len(claim.Spec.Devices.Constraints))
	for i := range list {
		c, api := &list[i], &claim.Spec.Devices.Constraints[i]
		c.requests = api.Requests
		switch {
		case api.MatchAttribute != nil:
			c.attribute = resourceapi.QualifiedName(*api.MatchAttribute)
		case api.DistinctAttribute != nil:
			c.attribute, c.distinct = resourceapi.QualifiedName(*api.DistinctAttribute), true
		default:
			return nil, fmt.Errorf("claim %s, constraint #%d: empty constraint (unsupported constraint type?)", klog.KObj(claim), i)
		}
		if domain, id, qualified := strings.Cut(string(c.attribute), "/"); qualified {
			c.domain, c.id = domain, id
		}
	}
	return list, nil
}

func (c *constraint) appliesTo(a *alternative) bool {
	if len(c.requests) == 0 || slices.Contains(c.requests, a.fullName()) {
		return true
	}
	return a.parent != "" && slices.Contains(c.requests, a.parent)
}

// attributeOf returns the value of the attribute of a device, nil if it has none. Names
// without a domain are of the driver's domain.
func (c *constraint) attributeOf(d *device) *resourceapi.DeviceAttribute {
	if value, found := d.api.Attributes[c.attribute]; found {
		return &value
	}
	if c.id == "" || c.domain != d.slice.api.Spec.Driver {
		return nil
	}
	if value, found := d.api.Attributes[resourceapi.QualifiedName(c.id)]; found {
		return &value
	}
	return nil
}

// allows reports whether a value can be added to those of the devices chosen so far.
func (c *constraint) allows(value *resourceapi.DeviceAttribute, chosen []*resourceapi.DeviceAttribute) bool {
	if len(chosen) == 0 {
		return true
	}
	if !hasOneValue(value) {
		return false
	}
	if !c.distinct {
		return sameValue(value, chosen[0])
	}
	return !slices.ContainsFunc(chosen, func(other *resourceapi.DeviceAttribute) bool { return sameValue(value, other) })
}

// hasOneValue reports whether a value is of a type that can be compared: lists cannot.
func hasOneValue(v *resourceapi.DeviceAttribute) bool {
	return v.StringValue != nil || v.IntValue != nil || v.BoolValue != nil || v.VersionValue != nil
}

// sameValue compares a with b by the type of a.
func sameValue(a, b *resourceapi.DeviceAttribute) bool {
	switch {
	case a.StringValue != nil:
		return b.StringValue != nil && *a.StringValue == *b.StringValue
	case a.IntValue != nil:
		return b.IntValue != nil && *a.IntValue == *b.IntValue
	case a.BoolValue != nil:
		return b.BoolValue != nil && *a.BoolValue == *b.BoolValue
	}
	return b.VersionValue != nil && *a.VersionValue == *b.VersionValue
}
