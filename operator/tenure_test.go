package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// lock is a Lease that does as it is told.
type lock struct {
	resourcelock.Interface
	err error
}

func (l *lock) Identity() string { return "us" }
func (l *lock) Describe() string { return "berth-system/berth-manager" }
func (l *lock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return l.err
}
func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func TestATenureLastsAsLongAsItIsRenewed(t *testing.T) {
	const duration, deadline = 15 * time.Second, 10 * time.Second
	renew := func(holder string, err error) func(*tenure, *lock) {
		return func(x *tenure, l *lock) {
			l.err = err
			_ = x.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
	}
	acquire := func(x *tenure, l *lock) {
		_ = x.Create(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: "us"})
	}
	refused := errors.New("conflict")
	for sentence, c := range map[string]struct {
		begin func(*tenure, *lock)
		after time.Duration
		then  func(*tenure, *lock)
		holds bool
		says  string
	}{
		"who never led does not hold it, and is alive":         {nil, time.Hour, nil, false, ""},
		"who was just elected holds it":                        {acquire, 0, nil, true, ""},
		"who was refused does not hold it":                     {renew("us", refused), 0, nil, false, ""},
		"a renewal counts":                                     {acquire, 9 * time.Second, renew("us", nil), true, ""},
		"a renewal that fails does not end it before its time": {acquire, 9 * time.Second, renew("us", refused), true, ""},
		"nor does it make it longer":                           {acquire, deadline, renew("us", refused), false, ""},
		"who gave it back does not hold it, and is alive":      {acquire, time.Hour, renew("", nil), false, ""},
		"who holds on to it for a little is alive":             {acquire, duration + leaseTolerance, nil, false, ""},
		"who holds on to it for long is not":                   {acquire, duration + leaseTolerance + time.Second, nil, false, "the Lease berth-system/berth-manager was last renewed at 2026-01-01T00:00:00Z (36s ago), and neither renewed nor given up since"},
	} {
		t.Run(sentence, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			l := &lock{}
			x := &tenure{Interface: l, clock: clock, election: election{LeaseDuration: duration, RenewDeadline: deadline}}
			if c.begin != nil {
				c.begin(x, l)
			}
			clock.SetTime(clock.Now().Add(c.after))
			if c.then != nil {
				c.then(x, l)
			}
			if x.holds() != c.holds {
				t.Errorf("holds: %t", !c.holds)
			}
			if err := x.alive(); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("alive: %v", err)
			}
		})
	}
}
