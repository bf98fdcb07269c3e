package leadership

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

const us, them = "us", "them"

// lease is a Lease, without the rest of an API server.
type fakeLease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
	// meanwhile passes before a request is answered.
	meanwhile func()
}

func (l *fakeLease) Identity() string { return us }

func (l *fakeLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, l.err
}

func (l *fakeLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *fakeLease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.meanwhile != nil {
		l.meanwhile()
	}
	if l.err == nil {
		l.record = r
	}
	return l.err
}

// play is a Tenure of ten seconds, its lock, and what became of it.
type testEnv struct {
	*Tracker
	clock *clocktesting.FakeClock
	lease *fakeLease
	lock  resourcelock.Interface
	lost  int
}

func newTestEnv() *testEnv {
	p := &testEnv{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), lease: &fakeLease{}}
	p.Tracker = New(p.clock, 10*time.Second, func() { p.lost++ })
	p.lock = p.TrackLock(p.lease)
	return p
}

func (p *testEnv) renew() {
	_ = p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: us, LeaderTransitions: 3})
}

func (p *testEnv) read() { _, _, _ = p.lock.Get(context.Background()) }

func TestWhenAWriteIsSent(t *testing.T) {
	for sentence, c := range map[string]struct {
		then func(p *testEnv)
		sent bool
		lost int
	}{
		"never before it leads": {func(*testEnv) {}, false, 0},
		"at once when it leads": {(*testEnv).renew, true, 0},
		"when it created the Lease": {func(p *testEnv) {
			_ = p.lock.Create(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: us})
		}, true, 0},
		"always when nobody else may lead":             {(*testEnv).DisableElection, true, 0},
		"until the term is over":                       {func(p *testEnv) { p.renew(); p.clock.Step(10*time.Second - 1) }, true, 0},
		"not when the term is over":                    {func(p *testEnv) { p.renew(); p.clock.Step(10 * time.Second) }, false, 0},
		"after a renewal again":                        {func(p *testEnv) { p.renew(); p.clock.Step(20 * time.Second); p.renew() }, true, 0},
		"not for a renewal that failed":                {func(p *testEnv) { p.lease.err = apierrors.NewInternalError(errors.New("broken")); p.renew() }, false, 0},
		"by when a renewal was sent, not answered":     {func(p *testEnv) { p.lease.meanwhile = func() { p.clock.Step(10 * time.Second) }; p.renew() }, false, 0},
		"not when another one holds the Lease":         {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = them; p.read() }, false, 1},
		"not when the Lease is nobody's":               {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = ""; p.read() }, false, 1},
		"still when the Lease cannot be read":          {func(p *testEnv) { p.renew(); p.lease.err = apierrors.NewInternalError(errors.New("broken")); p.read() }, true, 0},
		"still when the Lease is read as its own":      {func(p *testEnv) { p.renew(); p.read() }, true, 0},
		"and that it does not lead yet is no loss":     {func(p *testEnv) { p.lease.record.HolderIdentity = them; p.read() }, false, 0},
		"and that it lost the Lease is told only once": {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = them; p.read(); p.read() }, false, 1},
		"not once it gave the Lease back": {func(p *testEnv) {
			p.renew()
			_ = p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{})
		}, false, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := newTestEnv()
			c.then(p)
			if sent := p.Err() == nil; sent != c.sent {
				t.Errorf("sent: %t, want %t: %v", sent, c.sent, p.Err())
			}
			if p.lost != c.lost {
				t.Errorf("told %d times that the Lease is lost, want %d", p.lost, c.lost)
			}
		})
	}
}

func TestCheckRenewal(t *testing.T) {
	const within = 35 * time.Second
	for sentence, c := range map[string]struct {
		then func(p *testEnv)
		says string
	}{
		"who never led is":                   {func(p *testEnv) { p.clock.Step(time.Hour) }, ""},
		"who needs no Lease is":              {func(p *testEnv) { p.renew(); p.DisableElection(); p.clock.Step(time.Hour) }, ""},
		"who holds on to it for a little is": {func(p *testEnv) { p.renew(); p.clock.Step(within) }, ""},
		"who gave it back is": {func(p *testEnv) {
			p.renew()
			_ = p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{})
			p.clock.Step(time.Hour)
		}, ""},
		"who learned that it is another one's, too": {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = them; p.read(); p.clock.Step(time.Hour) }, ""},
		"who holds on to it for long is not": {
			func(p *testEnv) { p.renew(); p.clock.Step(within + time.Second) },
			"the Lease was last renewed at 1970-01-01T00:16:40Z (36s ago), and neither renewed nor given up since",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := newTestEnv()
			c.then(p)
			said := ""
			if err := p.CheckRenewal(within); err != nil {
				said = err.Error()
			}
			if said != c.says {
				t.Errorf("says %q, want %q", said, c.says)
			}
		})
	}
}

func TestTheLeaseOfASuccessorIsNotReleased(t *testing.T) {
	p := newTestEnv()
	p.renew()
	p.lease.record = resourcelock.LeaderElectionRecord{HolderIdentity: them, LeaderTransitions: 4}
	p.read() // as the election's release does, which goes on whatever it reads
	if err := p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{LeaderTransitions: 4}); err != nil {
		t.Error(err)
	}
	if p.lease.record.HolderIdentity != them {
		t.Errorf("the successor's Lease is held by %q now", p.lease.record.HolderIdentity)
	}
}

func TestTheEpochCountsLeaderTransitions(t *testing.T) {
	p := newTestEnv()
	p.renew()
	if p.Epoch() != 3 {
		t.Errorf("the epoch is %d, want 3", p.Epoch())
	}
}

func TestFenceWrites(t *testing.T) {
	var came []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { came = append(came, r.Method) }))
	defer api.Close()
	p := newTestEnv()
	config := &restclient.Config{Host: api.URL}
	p.FenceWrites(config)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, api.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	methods := []string{"GET", "POST", "PATCH", "PUT", "DELETE"}
	for _, method := range methods {
		if err := ask(method); (err == nil) != (method == "GET") || err != nil && !errors.Is(err, ErrNotLeading) {
			t.Errorf("%s without a Lease: %v", method, err)
		}
	}
	p.renew()
	for _, method := range methods {
		if err := ask(method); err != nil {
			t.Errorf("%s with a Lease: %v", method, err)
		}
	}
	if want := append([]string{"GET"}, methods...); !slices.Equal(came, want) {
		t.Errorf("the API server got %v, want %v", came, want)
	}
}
