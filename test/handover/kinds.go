package handover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/test/handover/history"
	"github.com/berthdev/berth/test/support/faultproxy"
)

// Kind is what a handover is preceded by.
type Kind string

// The kinds. Times are those of a Lease of 15 seconds.
const (
	// Killed: the leader is killed, at any moment.
	Killed Kind = "killed"
	// Frozen: the leader stands still for 20 s, and goes on when it has a
	// successor.
	Frozen Kind = "frozen"
	// CutOff: nothing passes between the leader and its API server.
	CutOff Kind = "cut off"
	// Stolen: somebody else's name is written into the Lease.
	Stolen Kind = "stolen"
	// Lagging: the leader gives the Lease back and ends, and the watches of who
	// stands by lag 10 s: it leads long before it has seen what the leader did.
	Lagging Kind = "lagging"
	// Late: the leader's Bindings are held up on their way, the leader is killed,
	// and they arrive when its successor binds.
	Late Kind = "late"
)

// Kinds are all of them.
var Kinds = []Kind{Killed, Frozen, CutOff, Stolen, Lagging, Late}

// Handover is one that happened.
type Handover struct {
	Kind Kind
	// Gap is from the last bind of the earlier leader to the first of its
	// successor, as they were seen.
	Gap time.Duration
	// Late is how many Bindings of the earlier leader arrived late, and Refused how
	// many of them were of pods whose status said that they are not scheduled.
	Late, Refused int
}

// HandOver has the leader lose its place in that way, waits until another one has
// bound a pod, and puts a new manager where the earlier leader was.
func (s *Stage) HandOver(ctx context.Context, kind Kind) (h Handover, err error) {
	h.Kind = kind
	ctx, cancel := context.WithTimeoutCause(ctx, 4*s.options.Lease+2*patience, fmt.Errorf("%s: nobody took over", kind))
	defer cancel()
	if err := errors.Join(s.steady(ctx), s.anyMoment(ctx)); err != nil {
		return h, err
	}
	earlier, later, from := s.leads(), s.stands(), len(s.record.Binds())
	s.leader = 1 - s.leader
	switch kind {
	case Killed:
		s.kill(earlier)
		err = s.successor(ctx, from, &h)
	case Frozen:
		err = s.freeze(ctx, earlier, from, &h)
	case CutOff:
		earlier.proxy.Sever()
		err = errors.Join(s.successor(ctx, from, &h), s.ended(ctx, earlier, patience))
		earlier.proxy.Mend() // for who comes there next
	case Stolen:
		if err := s.steal(ctx); err != nil {
			return h, err
		}
		err = errors.Join(s.ended(ctx, earlier, s.options.Lease), s.successor(ctx, from, &h))
	case Lagging:
		later.proxy.Lag(s.options.Lease * 2 / 3)
		if err := s.anyMoment(ctx); err != nil {
			return h, err
		}
		if err := earlier.manager.Signal(syscall.SIGTERM); err != nil {
			return h, err
		}
		err = errors.Join(s.successor(ctx, from, &h), s.ended(ctx, earlier, patience))
		later.proxy.Lag(0)
	case Late:
		err = s.delay(ctx, earlier, from, &h)
	default:
		return h, fmt.Errorf("there is no kind %q", kind)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", kind, err)
	}
	return h, s.enter(ctx, earlier)
}

// anyMoment waits for some more binds, so that what comes then comes in between.
func (s *Stage) anyMoment(ctx context.Context) error {
	n := len(s.record.Binds()) + s.dice.IntN(2*rate)
	return s.record.Until(ctx, func(binds []history.Bind) bool { return len(binds) >= n })
}

func (s *Stage) kill(seat *seat) {
	seat.manager.Kill()
	s.cp.End(seat.manager.Process)
}

// successor waits until a later leadership has bound, and notes how long nobody
// did.
func (s *Stage) successor(ctx context.Context, from int, h *Handover) error {
	return s.record.Until(ctx, func(binds []history.Bind) bool {
		for i := max(from, 1); i < len(binds); i++ {
			if binds[i].Epoch > binds[from-1].Epoch {
				h.Gap = binds[i].Seen.Sub(binds[i-1].Seen)
				return true
			}
		}
		return false
	})
}

// freeze lets the leader stand still for longer than its Lease lasts, and until it
// has a successor that binds; then it goes on, and must end.
func (s *Stage) freeze(ctx context.Context, seat *seat, from int, h *Handover) error {
	if err := seat.manager.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	thaw := time.After(s.options.Lease * 4 / 3)
	if err := s.successor(ctx, from, h); err != nil {
		return err
	}
	select {
	case <-thaw:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := seat.manager.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return s.ended(ctx, seat, s.options.Lease)
}

// delay holds up what the leader binds, kills it, and lets that arrive when its
// successor has begun to bind. All of it must be refused: what it binds is
// decided about anew.
func (s *Stage) delay(ctx context.Context, seat *seat, from int, h *Handover) error {
	arrive, held := make(chan struct{}), make(chan struct{}, Pods)
	seat.proxy.Do(func(faultproxy.Binding) *faultproxy.Fault {
		held <- struct{}{}
		return &faultproxy.Fault{Late: arrive, HoldAnswer: arrive}
	})
	for range 1 + s.dice.IntN(Places/4) {
		select {
		case <-held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.kill(seat)
	for _, b := range seat.proxy.Bindings() {
		pod, err := s.client.CoreV1().Pods(b.Namespace).Get(ctx, b.Pod, metav1.GetOptions{})
		if err == nil && binding.HasPodScheduledFalse(pod) {
			h.Refused++
		}
	}
	if err := s.successor(ctx, from, h); err != nil {
		return err
	}
	close(arrive)
	err := wait.PollUntilContextCancel(ctx, pulse, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(seat.proxy.Bindings(), func(b faultproxy.Binding) bool { return b.Code == 0 }), nil
	})
	for _, b := range seat.proxy.Bindings() {
		h.Late++
		if b.Code == http.StatusCreated {
			err = errors.Join(err, fmt.Errorf("a Binding of pod %s counted that arrived after the successor had bound", b.Pod))
		}
	}
	seat.proxy.Do(nil)
	return err
}
