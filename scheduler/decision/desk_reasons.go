package decision

import (
	"hash/fnv"
	"io"
)

// reasonsOf is a number for what makes an explanation worth another write: all
// but counts, names of nodes and times. It is never zero. Where no plugin was
// asked, the message is all there is to tell one reason from another.
func reasonsOf(s *Status) uint64 {
	parts := []string{string(s.Result), s.Profile.Name, s.Profile.Hash}
	if len(s.Rejections) == 0 {
		parts = append(parts, s.Message)
	}
	if s.Queue != nil {
		parts = append(parts, "queue", s.Queue.Where, s.Queue.Gate)
	}
	if s.Preemption != nil {
		parts = append(parts, "preemption", string(s.Preemption.Outcome))
	}
	sum := digest(parts...)
	for _, r := range s.Rejections {
		// Added, since their order is that of their counts.
		sum += digest(r.Plugin, r.Code, r.Reason)
	}
	return max(sum, 1)
}

// digest is a number for a list of words.
func digest(words ...string) uint64 {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = io.WriteString(h, w) // a hash takes all
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
