package leadership

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

const us, them = "us", "them"

// fakeLease is a resource lock without an API server.
type fakeLease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
	// meanwhile is called before a request is answered.
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

// testEnv is a Tracker with a validity of ten seconds and its lock. lost counts the
// calls of onLost.
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
	p.lock = trackedLock{p.lease, p.Tracker, &readVersion{}, hadNoLeader}
	return p
}

func hadNoLeader(context.Context) bool { return false }

func (p *testEnv) renew() {
	_ = p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{
		HolderIdentity: us, LeaderTransitions: 3, RenewTime: metav1.NewTime(p.clock.Now()),
	})
}

func (p *testEnv) read() { _, _, _ = p.lock.Get(context.Background()) }

func TestWhenAWriteIsSent(t *testing.T) {
	for name, c := range map[string]struct {
		steps func(p *testEnv)
		sent  bool
		lost  int
	}{
		"not before it leads": {func(*testEnv) {}, false, 0},
		"when it leads":       {(*testEnv).renew, true, 0},
		"when it created the Lease": {func(p *testEnv) {
			_ = p.lock.Create(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: us})
		}, true, 0},
		"without an election":                        {(*testEnv).DisableElection, true, 0},
		"until the validity is over":                 {func(p *testEnv) { p.renew(); p.clock.Step(10*time.Second - 1) }, true, 0},
		"not after the validity":                     {func(p *testEnv) { p.renew(); p.clock.Step(10 * time.Second) }, false, 0},
		"again after a renewal":                      {func(p *testEnv) { p.renew(); p.clock.Step(20 * time.Second); p.renew() }, true, 0},
		"not after a renewal that failed":            {func(p *testEnv) { p.lease.err = apierrors.NewInternalError(errors.New("broken")); p.renew() }, false, 0},
		"the validity begins when a renewal is sent": {func(p *testEnv) { p.lease.meanwhile = func() { p.clock.Step(10 * time.Second) }; p.renew() }, false, 0},
		"not from the second time that a record is sent: the others saw it at the first": {func(p *testEnv) {
			record := resourcelock.LeaderElectionRecord{HolderIdentity: us, RenewTime: metav1.NewTime(p.clock.Now())}
			p.lease.err = errors.New("no response")
			_ = p.lock.Update(context.Background(), record)
			p.clock.Step(10 * time.Second)
			p.lease.err = nil
			_ = p.lock.Update(context.Background(), record)
		}, false, 0},
		"not when another process holds the Lease":  {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = them; p.read() }, false, 1},
		"not when no process holds the Lease":       {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = ""; p.read() }, false, 1},
		"still when the Lease cannot be read":       {func(p *testEnv) { p.renew(); p.lease.err = apierrors.NewInternalError(errors.New("broken")); p.read() }, true, 0},
		"still when it reads the Lease as its own":  {func(p *testEnv) { p.renew(); p.read() }, true, 0},
		"another holder is no loss before it leads": {func(p *testEnv) { p.lease.record.HolderIdentity = them; p.read() }, false, 0},
		"a loss is reported once":                   {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = them; p.read(); p.read() }, false, 1},
		"not after it released the Lease": {func(p *testEnv) {
			p.renew()
			_ = p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{})
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestEnv()
			c.steps(p)
			if sent := p.Err() == nil; sent != c.sent {
				t.Errorf("sent: %t, want %t: %v", sent, c.sent, p.Err())
			}
			if p.lost != c.lost {
				t.Errorf("onLost was called %d times, want %d", p.lost, c.lost)
			}
		})
	}
}

func TestCheckRenewal(t *testing.T) {
	const within = 35 * time.Second
	for name, c := range map[string]struct {
		steps func(p *testEnv)
		want  string
	}{
		"it never led":                      {func(p *testEnv) { p.clock.Step(time.Hour) }, ""},
		"there is no election":              {func(p *testEnv) { p.renew(); p.DisableElection(); p.clock.Step(time.Hour) }, ""},
		"the last renewal was not long ago": {func(p *testEnv) { p.renew(); p.clock.Step(within) }, ""},
		"it released the Lease": {func(p *testEnv) {
			p.renew()
			_ = p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{})
			p.clock.Step(time.Hour)
		}, ""},
		"another process holds the Lease": {func(p *testEnv) { p.renew(); p.lease.record.HolderIdentity = them; p.read(); p.clock.Step(time.Hour) }, ""},
		"the last renewal was long ago": {
			func(p *testEnv) { p.renew(); p.clock.Step(within + time.Second) },
			"the Lease was last renewed at 1970-01-01T00:16:40Z (36s ago), and neither renewed nor given up since",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestEnv()
			c.steps(p)
			got := ""
			if err := p.CheckRenewal(within); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("error %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheLeaseOfASuccessorIsNotReleased(t *testing.T) {
	p := newTestEnv()
	p.renew()
	p.lease.record = resourcelock.LeaderElectionRecord{HolderIdentity: them, LeaderTransitions: 4}
	p.read() // the election's release reads the Lease and goes on whatever it finds
	if err := p.lock.Update(context.Background(), resourcelock.LeaderElectionRecord{LeaderTransitions: 4}); err != nil {
		t.Error(err)
	}
	if p.lease.record.HolderIdentity != them {
		t.Errorf("the Lease of the successor is held by %q now", p.lease.record.HolderIdentity)
	}
}

func TestTheEpochCountsLeaderTransitions(t *testing.T) {
	p := newTestEnv()
	p.renew()
	if p.Epoch() != 3 {
		t.Errorf("the epoch is %d, want 3", p.Epoch())
	}
}

// The process may be the first leader only if it creates the Lease and nothing else says that there
// was a leader: the Lease may have been deleted while a Binding was in flight.
func TestWhichLeaderIsTheFirst(t *testing.T) {
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-manager", UID: "held"}}
	for name, c := range map[string]struct {
		lease     []runtime.Object
		hadLeader bool
		want      bool
	}{
		"one that creates the Lease":                                {nil, false, true},
		"not one that creates it where there was a leader":          {nil, true, false},
		"not one that takes over a Lease, which counts its holders": {[]runtime.Object{held}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, client := newTestEnv(), fake.NewClientset(c.lease...)
			client.PrependReactor("create", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				action.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease).UID = "created"
				return false, nil, nil
			})
			lock := p.TrackLock(&resourcelock.LeaseLock{
				LeaseMeta: held.ObjectMeta, Client: client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: us},
			}, func(context.Context) bool { return c.hadLeader })
			record, acquire := resourcelock.LeaderElectionRecord{HolderIdentity: us}, lock.Update
			if _, _, err := lock.Get(t.Context()); apierrors.IsNotFound(err) {
				acquire = lock.Create
			}
			if err := acquire(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			uid := types.UID("created")
			if c.lease != nil {
				uid = "held"
			}
			if p.First() != c.want || p.LeaseUID() != uid {
				t.Errorf("first %v, Lease %q; want %v and %q", p.First(), p.LeaseUID(), c.want, uid)
			}
		})
	}
}

func TestFenceWrites(t *testing.T) {
	var received []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = append(received, r.Method) }))
	defer api.Close()
	p := newTestEnv()
	config := &restclient.Config{Host: api.URL}
	p.FenceWrites(config)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	send := func(method string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, api.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	methods := []string{"GET", "POST", "PATCH", "PUT", "DELETE"}
	for _, method := range methods {
		if err := send(method); (err == nil) != (method == "GET") || err != nil && !errors.Is(err, ErrNotLeading) {
			t.Errorf("%s without a Lease: %v", method, err)
		}
	}
	p.renew()
	for _, method := range methods {
		if err := send(method); err != nil {
			t.Errorf("%s with a Lease: %v", method, err)
		}
	}
	if want := append([]string{"GET"}, methods...); !slices.Equal(received, want) {
		t.Errorf("the API server got %v, want %v", received, want)
	}
}

// client-go repeats a request whose answer has the header Retry-After. A repetition that is
// refused, since the process does not lead any more, hides that the write took effect.
func TestAWriteThatMayHaveTakenEffectIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		method    string
		status    int
		mayRepeat bool
	}{
		"a write with an open outcome":       {http.MethodPost, http.StatusInternalServerError, false},
		"a write that timed out":             {http.MethodPatch, http.StatusGatewayTimeout, false},
		"a write that was turned away":       {http.MethodPost, http.StatusTooManyRequests, true},
		"a read of an API server in trouble": {http.MethodGet, http.StatusInternalServerError, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestEnv()
			p.renew()
			config := &restclient.Config{}
			p.FenceWrites(config)
			transport := config.WrapTransport(answer{status: c.status})
			request, err := http.NewRequestWithContext(t.Context(), c.method, "https://apiserver", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if mayRepeat := response.Header.Get("Retry-After") != ""; mayRepeat != c.mayRepeat || response.StatusCode != c.status {
				t.Errorf("status %d, repeated by client-go: %t; want %d and %t", response.StatusCode, mayRepeat, c.status, c.mayRepeat)
			}
		})
	}
}

// answer answers each request with a status and Retry-After.
type answer struct{ status int }

func (a answer) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody, Request: request}, nil
}

func TestTheClientOfTheLeaseHasATimeoutOfItsOwn(t *testing.T) {
	config := &restclient.Config{Host: "https://127.0.0.1:1", UserAgent: "manager"}
	if _, err := newTestEnv().NewLeaseLock(config, "berth-system", "berth-manager", nil, hadNoLeader); err != nil {
		t.Fatal(err)
	}
	if config.Timeout != 0 || config.UserAgent != "manager" {
		t.Errorf("the configuration of the other clients has the timeout %v and the user agent %q, want none and its own", config.Timeout, config.UserAgent)
	}
}

// The clock of a holder that is set back gives two renewals the same times.
func TestARenewalWithTheTimesOfAnEarlierOneIsSeen(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "berth-manager", ResourceVersion: "1"}}
	client := fake.NewClientset(lease)
	lock := newTestEnv().TrackLock(&resourcelock.LeaseLock{LeaseMeta: lease.ObjectMeta, Client: client.CoordinationV1()}, hadNoLeader)
	read := func() string {
		_, raw, err := lock.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	first, again := read(), read()
	lease.ResourceVersion = "2"
	if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, lease.Namespace); err != nil {
		t.Fatal(err)
	}
	if renewed := read(); again != first || renewed == first {
		t.Errorf("read %q, then %q, and %q after a renewal", first, again, renewed)
	}
}
