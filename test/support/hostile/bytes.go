// Package hostile makes objects from the bytes of a fuzz input: nodes and pods as the API
// server would refuse them, mixed with valid ones. They may be stored all the same, by
// another version or by a write to etcd.
package hostile

import "math/rand/v2"

// Bytes draws values from the bytes of a fuzz input, one byte for each value, so that a
// change of one byte changes one value. When all bytes are used, every further value is the
// first of its choices: a shorter input makes a simpler object.
type Bytes struct{ rest []byte }

// New returns the values of an input, which must not change afterwards.
func New(input []byte) *Bytes { return &Bytes{rest: input} }

// Seed returns an input of n random bytes, the same for each number.
func Seed(number uint64, n int) []byte {
	random, input := rand.New(rand.NewPCG(number, 0x66757a7a)), make([]byte, n)
	for i := range input {
		input[i] = byte(random.IntN(256))
	}
	return input
}

// Used reports whether all bytes are used.
func (b *Bytes) Used() bool { return len(b.rest) == 0 }

// Below returns a number from 0 to n-1, and 0 when all bytes are used. n is from 1 to 256.
func (b *Bytes) Below(n int) int {
	if len(b.rest) == 0 {
		return 0
	}
	drawn := int(b.rest[0])
	b.rest = b.rest[1:]
	return drawn % n
}

// One is true in one of n cases, and false when all bytes are used.
func (b *Bytes) One(n int) bool { return b.Below(n) == n-1 }

// Source returns a source for math/rand/v2, whose numbers follow the bytes, one for each: most
// choices that a generator makes depend on one byte. When all bytes are used, the numbers are
// pseudo-random, since generators may draw again until a number suits them.
func (b *Bytes) Source() rand.Source { return &source{bytes: b} }

type source struct {
	bytes *Bytes
	state uint64
}

// Uint64 returns a number whose highest and lowest byte is drawn; the others are the next
// ones of SplitMix64.
func (s *source) Uint64() uint64 {
	s.state += 0x9e3779b97f4a7c15
	mixed := s.state
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	mixed ^= mixed >> 31
	if s.bytes.Used() {
		return mixed
	}
	drawn := uint64(s.bytes.Below(256))
	return drawn<<56 | mixed>>8&^0xff | drawn
}

// Pick returns one of list; the first when all bytes are used.
func Pick[T any](b *Bytes, list ...T) T { return list[b.Below(len(list))] }

// List returns up to most values of one, none when all bytes are used.
func List[T any](b *Bytes, most int, one func() T) []T {
	var list []T
	for range b.Below(most + 1) {
		list = append(list, one())
	}
	return list
}
