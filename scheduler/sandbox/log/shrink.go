package log

import "slices"

// Shrink returns as few of ops as still break something, in their order: delta
// debugging, by halves, quarters and so on down to single ops. breaks returns
// the place of the op at which a history breaks, -1 for one that does not, or
// that makes no sense any more.
func Shrink(ops []Op, breaks func([]Op) int) []Op {
	at := breaks(ops)
	if at < 0 {
		return ops
	}
	ops = ops[:at+1]
	for size := len(ops) / 2; size > 0; size /= 2 {
		for from := 0; from < len(ops)-1; {
			rest := slices.Concat(ops[:from], ops[min(from+size, len(ops)-1):])
			if at := breaks(rest); at >= 0 {
				ops = rest[:at+1]
			} else {
				from += size
			}
		}
	}
	return ops
}
