package allocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
)

// Limits of a search.
const (
	// searchBudget is how many devices a search on one node tries. kube-scheduler searches
	// for ten seconds, with an exponential number of tries for some claims.
	searchBudget = 1_000_000
	// attemptBudget is how many steps the searches of one attempt take on all nodes: each may
	// end just before searchBudget, and thousands of them would stop the loop for minutes. A
	// try is plan.stepsPerTry of them; a core makes five to twenty million steps a second.
	// 300 steps on each of 100,000 nodes are below it. kube-scheduler has no such limit.
	attemptBudget = 50_000_000
	// devicesPerStep is how many chosen devices a try compares in the time of one step.
	devicesPerStep = 64
	// triesBeforeBound is after how many tries the search looks for a proof that it is in
	// vain, which costs more than most searches.
	triesBeforeBound = 512
	// triesPerCheck is how many tries there are between two looks at the context.
	triesPerCheck = 64
)

var (
	// errTooManyDevices says that a claim would get more devices than a result can have.
	errTooManyDevices = errors.New("allocation max size exceeded")
	// errInVain ends a search that cannot succeed.
	errInVain = errors.New("not enough devices")
)

// search looks for devices on one node, in the order of kube-scheduler: depth first, one
// claim, request and device after the other, the first solution counts.
type search struct {
	ctx       context.Context
	node      *v1.Node
	plan      *plan
	allocated *Allocated
	pools     *nodePools
	// budget is how many devices the search may try. ofAttempt is the attempt's budget if the
	// searches before this one have left less of it than one node may use; otherwise 0.
	budget    int
	ofAttempt int64

	// held are the held devices of each pool, looked up when they are needed.
	held []heldInPool
	// options are by number of the alternative.
	options []options
	// chosen are the devices of the solution so far, counts their number by claim, and
	// selected the index of the alternative by number of the request.
	chosen   []choice
	counts   []int
	selected []int
	// values are those of the chosen devices by claim and constraint.
	values [][][]*resourceapi.DeviceAttribute
	// consumed is what the chosen devices consume of counters.
	consumed map[*pool][]resource.Quantity
	scratch  []consumption
	tries    int
	calls    int
	// proofSteps is how many devices isInVain has looked at.
	proofSteps int
}

type heldInPool struct {
	known    bool
	holdings *poolHoldings
}

// choice is one device of a solution.
type choice struct {
	alternative *alternative
	device      *device
	claim       int
	// counted says that counters were reserved.
	counted bool
	// consumed is what a share consumes; unset if the device is not shareable.
	consumed []consumption
}

// searches keeps the memory of searches. What the last ones refer to is freed when they are
// used again, or by the garbage collector.
var searches = sync.Pool{New: func() any { return &search{} }}

// reset prepares s for a node. It keeps memory, not content.
func (s *search) reset(p *plan) {
	s.plan = p
	s.held = resized(s.held, len(s.pools.pools))
	s.options = slices.Grow(s.options[:0], p.alternatives)[:p.alternatives]
	for i := range s.options {
		s.options[i].reset()
	}
	s.chosen = s.chosen[:0]
	s.counts, s.selected = resized(s.counts, len(p.claims)), resized(s.selected, p.requests)
	s.values = resized(s.values, len(p.claims))
	for i := range s.values {
		if n := len(p.claims[i].constraints); n > 0 {
			s.values[i] = make([][]*resourceapi.DeviceAttribute, n)
		}
	}
	s.consumed, s.tries, s.calls, s.proofSteps = nil, 0, 0, 0
}

// resized returns a list of n zero values, in the memory of list if it is large enough.
func resized[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// run returns whether there is a solution.
func (s *search) run() (bool, error) {
	if err := s.prepare(); err != nil {
		return false, err
	}
	done, err := s.allocateClaim(0)
	if errors.Is(err, errInVain) {
		return false, nil
	}
	return done, err
}

// prepare finds the devices of requests for all devices, and checks how many devices each
// claim needs at least.
func (s *search) prepare() error {
	for i := range s.plan.claims {
		c := &s.plan.claims[i]
		total := 0
		for j := range c.requests {
			r := &c.requests[j]
			least := -1
			for k := range r.alternatives {
				a := &r.alternatives[k]
				count, err := s.countOf(a)
				if err != nil {
					return err
				}
				if least < 0 || count < least {
					least = count
				}
			}
			if least > resourceapi.AllocationResultsMaxSize-total {
				return fmt.Errorf("claim %s, request %s: adding %d devices exceeds the claim limit of %d, with %d already accounted for",
					klog.KObj(c.claim), r.name, least, resourceapi.AllocationResultsMaxSize, total)
			}
			total += least
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// countOf returns how many devices an alternative needs.
func (s *search) countOf(a *alternative) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	o := &s.options[a.number]
	o.count = a.count
	if !a.wantsAll {
		return o.count, nil
	}
	if p := s.pools.unusable; p != nil {
		return 0, s.findAllBefore(a, o, p)
	}
	if err := s.findAll(a, o, s.pools.pools); err != nil {
		return 0, err
	}
	o.count = len(o.list)
	return o.count, nil
}

func (s *search) allocateClaim(claim int) (bool, error) {
	if err := s.checkContext(); err != nil || claim == len(s.plan.claims) {
		return err == nil, err
	}
	return s.allocateRequest(claim, 0)
}

func (s *search) allocateRequest(claim, request int) (bool, error) {
	c := &s.plan.claims[claim]
	if request == len(c.requests) {
		done, err := s.allocateClaim(claim + 1)
		if errors.Is(err, errTooManyDevices) {
			// Other choices for an earlier claim make no difference to the limit of a
			// later one, unless they leave it another alternative.
			return false, nil
		}
		return done, err
	}
	r := &c.requests[request]
	if !r.firstAvailable {
		return s.allocateDevices(claim, request, 0, 0)
	}
	tooMany := true
	for i := range r.alternatives {
		s.selected[r.number] = i
		done, err := s.allocateDevices(claim, request, 0, 0)
		switch {
		case errors.Is(err, errTooManyDevices):
			continue // the next alternative may need fewer devices
		case err != nil || done:
			return done, err
		}
		tooMany = false
	}
	if tooMany {
		return false, errTooManyDevices
	}
	return false, nil
}

// allocateDevices allocates the devices of the selected alternative from the given one on,
// which is searched for from a place in the alternative's options on, and then all
// further requests.
func (s *search) allocateDevices(claim, request, number, start int) (bool, error) {
	if err := s.checkContext(); err != nil {
		return false, err
	}
	r := &s.plan.claims[claim].requests[request]
	a := &r.alternatives[s.selected[r.number]]
	o := &s.options[a.number]
	if a.wantsAll && o.count == 0 {
		return false, nil
	}
	missing := o.count - number
	if missing <= 0 {
		return s.allocateRequest(claim, request+1)
	}
	if missing > resourceapi.AllocationResultsMaxSize-s.counts[claim] {
		return false, errTooManyDevices
	}
	for i := start; ; i++ {
		if !o.exhausted && i == len(o.list) {
			s.extend(a, o)
		}
		if i == len(o.list) || o.cannotGive(missing, i) {
			return false, nil
		}
		taken, err := s.take(claim, a, &o.list[i])
		if err != nil {
			return false, err
		}
		if taken {
			done, err := s.allocateDevices(claim, request, number+1, i+1)
			if err != nil || done {
				if err != nil {
					s.giveBack()
				}
				return done, err
			}
			s.giveBack()
		}
		if a.wantsAll {
			return false, nil // no other device can take its place
		}
	}
}

// checkContext returns an error if the context has ended. It looks at each call at first,
// then at some.
func (s *search) checkContext() error {
	s.calls++
	if s.calls%triesPerCheck != 1 || s.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("filter operation aborted: %w", context.Cause(s.ctx))
}

// countTry returns an error if the search has used up its budget, or cannot succeed.
func (s *search) countTry(a *alternative) error {
	s.tries++
	if s.tries == triesBeforeBound && s.isInVain() {
		return errInVain
	}
	if s.tries > s.budget {
		return s.gaveUp(a)
	}
	return nil
}

// gaveUp returns the error of a search that has used up its budget.
func (s *search) gaveUp(a *alternative) error {
	used := fmt.Sprintf("trying %d devices", s.budget)
	if s.ofAttempt > 0 {
		used = fmt.Sprintf("%d steps on all nodes", s.ofAttempt)
	}
	return fmt.Errorf("node %s, claim %s, request %s: gave up after %s", s.node.Name, klog.KObj(a.claim.claim), a.fullName(), used)
}

// steps is what the search has used of the attempt's budget.
func (s *search) steps() int64 { return int64(s.tries)*s.plan.stepsPerTry() + int64(s.proofSteps) }

// setBudget gives s the budget of one node, or what earlier searches have left of the attempt's.
func (s *search) setBudget(a *Allocator) {
	s.budget, s.ofAttempt = a.budget, 0
	if left := (a.attemptBudget - a.steps.Load()) / s.plan.stepsPerTry(); left < int64(s.budget) {
		s.budget, s.ofAttempt = int(left), a.attemptBudget
	}
}
