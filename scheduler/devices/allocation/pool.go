package allocation

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// poolSlices are all slices of a pool, of all generations and for all nodes. They do not
// change.
type poolSlices struct {
	id poolID
	// slices are by name.
	slices []*deviceSlice
	// newest is the highest generation.
	newest int64

	mu sync.Mutex
	// built are the pools that nodes see, by the slices that offer something to a node.
	built map[string]*pool
}

// pool is what a node sees of a pool. It does not change, and nodes share it.
type pool struct {
	id poolID
	// obsolete says that slices of a newer generation exist, none of them for the node.
	obsolete bool
	// incomplete says that not all slices of the generation are there, and invalid that
	// they contradict each other. Then the node gets no device of the pool.
	incomplete, invalid bool
	// binding says that a device has binding conditions: then the pool comes last.
	binding bool
	// devices are those that the node may get, in the order of the search.
	devices []*device
	// all are the slices with devices of all nodes, sets the counters.
	all  []*deviceSlice
	sets []*resourceapi.CounterSet

	// hash is that of id. perDevice says that devices differ in their nodes.
	hash      uint64
	perDevice bool

	counters  func() *counterTable
	available atomic.Pointer[availableCounters]
	// usable are the usable devices for the last shapes of requests, which are replaced
	// in turn.
	usable    [shapesPerPool]atomic.Pointer[usableDevices]
	usableSet atomic.Uint32
}

func newPoolSlices(id poolID, all []*deviceSlice) *poolSlices {
	p := &poolSlices{id: id, slices: all, built: map[string]*pool{}}
	for i, s := range all {
		if generation := s.api.Spec.Pool.Generation; i == 0 || generation > p.newest {
			p.newest = generation
		}
	}
	return p
}

// seenBy returns the pool as a node sees it that gets something from relevant, slices of
// one generation.
func (p *poolSlices) seenBy(relevant []*deviceSlice) *pool {
	key := make([]byte, 0, 64)
	for _, s := range relevant {
		key = binary.AppendUvarint(key, uint64(s.slot))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	built := p.built[string(key)]
	if built == nil {
		built = p.build(relevant)
		built.counters = sync.OnceValue(func() *counterTable { return newCounterTable(built) })
		p.built[string(key)] = built
	}
	return built
}

// build is seenBy without a cache. Of slices that differ in how many there should be, the
// first one counts.
func (p *poolSlices) build(relevant []*deviceSlice) *pool {
	generation, count := relevant[0].api.Spec.Pool.Generation, relevant[0].api.Spec.Pool.ResourceSliceCount
	all := relevant
	if int64(len(relevant)) != count {
		if p.newest > generation {
			return &pool{id: p.id, obsolete: true}
		}
		all = nil
		for _, s := range p.slices {
			if s.api.Spec.Pool.Generation == generation && !s.ignored {
				all = append(all, s)
			}
		}
		if int64(len(all)) != count {
			return &pool{id: p.id, incomplete: true}
		}
	}
	built := &pool{id: p.id, hash: hashOf(p.id)}
	for _, s := range all {
		if !s.hasCounters() {
			built.all = append(built.all, s)
			continue
		}
		for i := range s.api.Spec.SharedCounters {
			built.sets = append(built.sets, &s.api.Spec.SharedCounters[i])
		}
	}
	built.addDevices(relevant)
	if built.hasDuplicates() || !built.hasValidCounters() {
		return &pool{id: p.id, invalid: true}
	}
	return built
}

// addDevices adds the devices of slices in the order of their names.
func (p *pool) addDevices(relevant []*deviceSlice) {
	for _, s := range slices.SortedFunc(slices.Values(relevant), byName) {
		if s.hasCounters() {
			continue
		}
		p.perDevice = p.perDevice || s.perDevice
		for i := range s.devices {
			p.devices = append(p.devices, &s.devices[i])
			p.binding = p.binding || s.devices[i].api.BindingConditions != nil
		}
	}
}

func byName(a, b *deviceSlice) int { return cmp.Compare(a.name(), b.name()) }

// hasDuplicates reports whether two devices, or two sets of counters, have the same name.
func (p *pool) hasDuplicates() bool {
	names := make(map[string]bool, len(p.devices))
	for _, d := range p.devices {
		if names[d.api.Name] {
			return true
		}
		names[d.api.Name] = true
	}
	sets := make(map[string]bool, len(p.sets))
	for _, set := range p.sets {
		if sets[set.Name] {
			return true
		}
		sets[set.Name] = true
	}
	return false
}

// byDriverAndName is the order of pools for the search.
func byDriverAndName(a, b *pool) int {
	last := func(p *pool) int {
		if p.binding {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(last(a), last(b)),
		cmp.Compare(a.id.driver.String(), b.id.driver.String()),
		cmp.Compare(a.id.pool.String(), b.id.pool.String()))
}
