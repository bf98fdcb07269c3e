package cache

import (
	"cmp"
	"slices"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// What is counted is bounded in numbers, which is what a node costs whose labels
// change, and in bytes, which grow with the nodes. What was used least recently
// is dropped, and counted again when it is asked for.
const (
	// maxSets bounds the sets of pods that are counted.
	maxSets = 4096
	// maxNumbers bounds the numbers that all sets have together, and
	// maxNumbersOfSet those of one set.
	maxNumbers, maxNumbersOfSet = 2048, 256
	// fewest is how many sets, and how many numbers, may be kept in clusters of
	// any size.
	fewest = 64
	// maxCountBytes bounds what sets take, and once more what numbers take.
	maxCountBytes = 128 << 20
	// setBytes and numberBytes are the most that one takes for each node.
	setBytes, numberBytes = 4, 13
)

// bound is how many may be kept that take so many bytes for each node.
func (k *kept) bound(most, bytes int) int {
	return max(fewest, min(most, maxCountBytes/(bytes*max(1, len(k.columns.Nodes)))))
}

// evictSets drops a quarter of the sets when one more would be too many: those
// that were used least recently.
func (k *kept) evictSets() {
	if len(k.sets) < k.bound(maxSets, setBytes) {
		return
	}
	type named struct {
		key string
		set *keptSet
	}
	var all []named
	for key, set := range k.sets {
		all = append(all, named{key, set})
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Compare(a.set.used(), b.set.used()) })
	for _, old := range all[:len(all)/4] {
		k.numbers -= len(old.set.numbers)
		old.set.drop()
		delete(k.sets, old.key)
	}
	k.shapes.forget(k.sets)
	k.shapes.survey(k.columns)
}

// used is the turn in which the set was used last.
func (s *keptSet) used() uint64 {
	turn := s.nodes.Turn
	for _, numbers := range s.numbers {
		turn = max(turn, numbers.Turn)
	}
	return turn
}

func (s *keptSet) drop() {
	s.nodes.Dropped = true
	for _, numbers := range s.numbers {
		numbers.Drop()
	}
}

// numbersOf names one of a set's numbers.
type numbersOf struct {
	set *keptSet
	key string
}

// evictNumbers drops numbers when one more of set would be too many: a quarter of
// the set's, or of all.
func (k *kept) evictNumbers(set *keptSet) {
	if fault.NumbersNeverEvicted {
		return
	}
	if len(set.numbers) >= maxNumbersOfSet {
		k.evictOldest(set.list(nil))
	}
	if k.numbers >= k.bound(maxNumbers, numberBytes) {
		var all []numbersOf
		for _, s := range k.sets {
			all = s.list(all)
		}
		k.evictOldest(all)
	}
}

// list appends the set's numbers to all.
func (s *keptSet) list(all []numbersOf) []numbersOf {
	for key := range s.numbers {
		all = append(all, numbersOf{s, key})
	}
	return all
}

// evictOldest drops the quarter of all that was used least recently.
func (k *kept) evictOldest(all []numbersOf) {
	turn := func(n numbersOf) uint64 { return n.set.numbers[n.key].Turn }
	slices.SortFunc(all, func(a, b numbersOf) int { return cmp.Compare(turn(a), turn(b)) })
	for _, old := range all[:len(all)/4] {
		k.forget(old)
	}
}

func (k *kept) forget(n numbersOf) {
	n.set.numbers[n.key].Drop()
	delete(n.set.numbers, n.key)
	k.numbers--
}

// reclaimed forgets the numbers of domains that are no longer kept.
func (k *kept) reclaimed(domains *framework.Domains) {
	for _, set := range k.sets {
		for key, numbers := range set.numbers {
			if numbers.Domains == domains {
				k.forget(numbersOf{set, key})
			}
		}
	}
}
