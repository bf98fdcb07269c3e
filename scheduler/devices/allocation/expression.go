package allocation

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/dynamic-resource-allocation/cel"
)

// expressionLimit is the number of expressions after which those that are not used any
// more are forgotten.
const expressionLimit = 256

// expressions are the CEL expressions in use. It is safe for concurrent use.
type expressions struct {
	compiler *cel.Cache
	byText   recentCache[*expression]
}

func newExpressions(compiler *cel.Cache) *expressions {
	return &expressions{compiler: compiler, byText: recentCache[*expression]{limit: expressionLimit}}
}

// get returns an expression, which may be one that does not compile.
func (e *expressions) get(text string) *expression {
	return e.byText.get(text, func() *expression {
		created := &expression{text: text, compiled: e.compiler.GetOrCompile(text)}
		created.tables.Store(&[]atomic.Pointer[verdicts]{})
		return created
	})
}

// expression is a compiled expression, and which devices match it. It is safe for
// concurrent use.
type expression struct {
	text     string
	compiled cel.CompilationResult

	// tables are the verdicts by the slot of the slice.
	tables atomic.Pointer[[]atomic.Pointer[verdicts]]
	// mu guards the growth of tables.
	mu sync.Mutex
}

// Verdicts on a device.
const (
	unknown = iota
	matches
	differs
	fails
)

// verdictsPerWord is how many verdicts of two bits a word has.
const verdictsPerWord = 32

// verdicts are those on the devices of one slice.
type verdicts struct {
	slice *deviceSlice
	words []atomic.Uint64

	mu   sync.Mutex
	errs map[int]error
}

// matches reports whether a device matches. The error is the one of the CEL runtime. A
// device is evaluated once, unless ctx has ended.
func (e *expression) matches(ctx context.Context, d *device) (bool, error) {
	v := e.verdictsOf(d.slice)
	word, shift := &v.words[d.index/verdictsPerWord], 2*(d.index%verdictsPerWord)
	switch word.Load() >> shift & 3 {
	case matches:
		return true, nil
	case differs:
		return false, nil
	case fails:
		v.mu.Lock()
		defer v.mu.Unlock()
		return false, v.errs[d.index]
	}
	match, _, err := e.compiled.DeviceMatches(ctx, cel.Device{
		Driver: d.slice.api.Spec.Driver, AllowMultipleAllocations: d.api.AllowMultipleAllocations,
		Attributes: d.api.Attributes, Capacity: d.api.Capacity,
	})
	var verdict uint64 = differs
	switch {
	case err != nil && ctx.Err() != nil:
		return false, err
	case err != nil:
		verdict = fails
		v.setError(d.index, err)
	case match:
		verdict = matches
	}
	word.Or(verdict << shift)
	return match, err
}

func (v *verdicts) setError(index int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.errs == nil {
		v.errs = map[int]error{}
	}
	v.errs[index] = err
}

// verdictsOf returns the verdicts on the devices of a slice. Those on another slice that
// had the same slot are dropped.
func (e *expression) verdictsOf(s *deviceSlice) *verdicts {
	tables := *e.tables.Load()
	if s.slot < len(tables) {
		if v := tables[s.slot].Load(); v != nil && v.slice == s {
			return v
		}
	} else {
		tables = e.grow(s.slot)
	}
	v := &verdicts{slice: s, words: make([]atomic.Uint64, (len(s.devices)+verdictsPerWord-1)/verdictsPerWord)}
	tables[s.slot].Store(v)
	return v
}

// grow returns tables with a place for a slot.
func (e *expression) grow(slot int) []atomic.Pointer[verdicts] {
	e.mu.Lock()
	defer e.mu.Unlock()
	tables := *e.tables.Load()
	if slot < len(tables) {
		return tables
	}
	larger := make([]atomic.Pointer[verdicts], max(slot+1, 2*len(tables)))
	for i := range tables {
		larger[i].Store(tables[i].Load())
	}
	e.tables.Store(&larger)
	return larger
}
