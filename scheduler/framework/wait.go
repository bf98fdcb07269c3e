package framework

import "context"

// Wait waits until something happens that other work causes: until gives a
// value or is closed. It returns nil then, and why ctx ended when that comes
// first. How work waits is handed to the rooms, as the clock is, so that a
// simulation can decide who goes on when.
type WaitFunc func(ctx context.Context, until <-chan struct{}) error

// Goroutine starts a goroutine that does work. It is how the scheduler starts work
// where it is given no other way. No other function of scheduler/ has a go
// statement: each is given one to call, so that a simulation decides what runs
// when.
func Goroutine(work func()) { go work() }

// Block is the Wait of a goroutine.
func Block(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
