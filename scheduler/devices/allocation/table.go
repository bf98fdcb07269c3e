package allocation

import (
	"hash/maphash"
	"maps"
	"slices"
)

// partSize is the mean number of entries in a part of a table, of which a change copies one.
const partSize = 16

// seed is of all tables.
var seed = maphash.MakeSeed()

// table is a map that does not change: with returns another one, which shares all parts but
// one. The zero table is empty.
type table[K comparable, V any] struct {
	// parts are by hash; their number is a power of two. A part without entries may be nil.
	parts []*part[K, V]
	count int
}

// part are the entries of a table whose hashes end in the same bits. It does not change, so
// that what was computed from it is valid as long as the pointer is the same.
type part[K comparable, V any] struct{ entries map[K]V }

func (p *part[K, V]) get(key K) (value V, found bool) {
	if p == nil {
		return value, false
	}
	value, found = p.entries[key]
	return value, found
}

func hashOf[K comparable](key K) uint64 { return maphash.Comparable(seed, key) }

// at returns the part for the hash of a key.
func (t *table[K, V]) at(hash uint64) *part[K, V] {
	if t.count == 0 {
		return nil
	}
	return t.parts[hash&uint64(len(t.parts)-1)]
}

func (t *table[K, V]) get(key K) (value V, found bool) {
	if t.count == 0 {
		return value, false
	}
	return t.at(hashOf(key)).get(key)
}

// each calls do for all entries, in no order.
func (t *table[K, V]) each(do func(K, V)) {
	for _, p := range t.parts {
		if p == nil {
			continue
		}
		for key, value := range p.entries {
			do(key, value)
		}
	}
}

// with returns the table with another value of a key.
func (t table[K, V]) with(key K, value V) table[K, V] {
	if t.count >= len(t.parts)*partSize {
		t = t.grown()
	}
	hash := hashOf(key)
	changed := map[K]V{}
	if before := t.parts[hash&uint64(len(t.parts)-1)]; before != nil {
		changed = maps.Clone(before.entries)
	}
	if _, found := changed[key]; !found {
		t.count++
	}
	changed[key] = value
	return t.replaced(hash, changed)
}

// without returns the table without a key.
func (t table[K, V]) without(key K) table[K, V] {
	if _, found := t.get(key); !found {
		return t
	}
	hash := hashOf(key)
	changed := maps.Clone(t.at(hash).entries)
	delete(changed, key)
	t.count--
	return t.replaced(hash, changed)
}

func (t table[K, V]) replaced(hash uint64, changed map[K]V) table[K, V] {
	t.parts = slices.Clone(t.parts)
	t.parts[hash&uint64(len(t.parts)-1)] = &part[K, V]{changed}
	return t
}

// grown returns the table with twice the number of parts.
func (t table[K, V]) grown() table[K, V] {
	larger := table[K, V]{parts: make([]*part[K, V], max(1, 2*len(t.parts))), count: t.count}
	for _, p := range t.parts {
		if p == nil {
			continue
		}
		for key, value := range p.entries {
			place := hashOf(key) & uint64(len(larger.parts)-1)
			if larger.parts[place] == nil {
				larger.parts[place] = &part[K, V]{make(map[K]V, partSize)}
			}
			larger.parts[place].entries[key] = value
		}
	}
	return larger
}
