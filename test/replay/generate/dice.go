package generate

import "math/rand/v2"

// dice is chance with a seed: the same throws every time.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x6265727468))} }

// chance is true in percent of a hundred throws.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

// between returns a number from low to high, both of them included.
func (d dice) between(low, high int) int { return low + d.IntN(high-low+1) }

// pick returns one of list.
func pick[T any](d dice, list []T) T { return list[d.IntN(len(list))] }

// some returns most items of list at most, in any order, each once.
func some[T any](d dice, list []T, most int) []T {
	order := d.Perm(len(list))[:d.IntN(min(most, len(list))+1)]
	chosen := make([]T, 0, len(order))
	for _, i := range order {
		chosen = append(chosen, list[i])
	}
	return chosen
}

// weighted is something that may be drawn, so many times out of the sum.
type weighted[T any] struct {
	share int
	value T
}

// draw returns one of list, by its share.
func draw[T any](d dice, list []weighted[T]) T {
	sum := 0
	for _, w := range list {
		sum += w.share
	}
	at := d.IntN(sum)
	for _, w := range list {
		if at -= w.share; at < 0 {
			return w.value
		}
	}
	return list[len(list)-1].value
}
