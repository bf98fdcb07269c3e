package allocation

import (
	"hash/maphash"
	"maps"
)

// partSize is the mean number of entries in a part of a table, of which a change copies one.
const partSize = 16

// seed is of all tables.
var seed = maphash.MakeSeed()

// table is a map that does not change: with returns another one, which shares all parts but
// one. The zero table is empty.
type table[K comparable, V any] struct {
	// parts are by hash; their number is a power of two.
	parts []map[K]V
	count int
}

func (t *table[K, V]) part(key K) uint64 {
	return maphash.Comparable(seed, key) & uint64(len(t.parts)-1)
}

func (t *table[K, V]) get(key K) (value V, found bool) {
	if t.count == 0 {
		return value, false
	}
	value, found = t.parts[t.part(key)][key]
	return value, found
}

// with returns the table with another value of a key.
func (t table[K, V]) with(key K, value V) table[K, V] {
	if t.count >= len(t.parts)*partSize {
		t = t.grown()
	}
	part := t.part(key)
	changed := maps.Clone(t.parts[part])
	if changed == nil {
		changed = map[K]V{}
	}
	if _, found := changed[key]; !found {
		t.count++
	}
	changed[key] = value
	return t.replaced(part, changed)
}

// without returns the table without a key.
func (t table[K, V]) without(key K) table[K, V] {
	if _, found := t.get(key); !found {
		return t
	}
	part := t.part(key)
	changed := maps.Clone(t.parts[part])
	delete(changed, key)
	t.count--
	return t.replaced(part, changed)
}

func (t table[K, V]) replaced(part uint64, changed map[K]V) table[K, V] {
	parts := make([]map[K]V, len(t.parts))
	copy(parts, t.parts)
	parts[part] = changed
	t.parts = parts
	return t
}

// grown returns the table with twice the number of parts.
func (t table[K, V]) grown() table[K, V] {
	larger := table[K, V]{parts: make([]map[K]V, max(1, 2*len(t.parts))), count: t.count}
	for _, entries := range t.parts {
		for key, value := range entries {
			part := larger.part(key)
			if larger.parts[part] == nil {
				larger.parts[part] = make(map[K]V, partSize)
			}
			larger.parts[part][key] = value
		}
	}
	return larger
}
