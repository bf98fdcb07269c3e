package operator

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	berth "github.com/berthdev/berth/operator"
)

// InProcess is a Manager that runs in the process of a test.
type InProcess struct {
	*berth.Manager
	// Stop ends it, waits until it has ended, and returns what Run returned. Further
	// calls return the same.
	Stop func() error
	// Ended is closed when Run has returned.
	Ended <-chan struct{}
}

// flags are those with which a Manager of a test differs from a shipped one: it serves
// no address of the machine, and creates no profile.
var flags = []string{
	"--namespace=" + Namespace, "--default-profile=", "--metrics-bind-address=0", "--health-probe-bind-address=0",
}

// ShortLease are flags of a Manager that takes over soon after another one was killed.
var ShortLease = []string{
	"--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=300ms",
}

// Run builds the Manager that is shipped and runs it in this process, with the account
// of config, until Stop. It does not wait until the Manager leads. args are more flags,
// with are more options.
func Run(config *rest.Config, args []string, with ...berth.Option) (*InProcess, error) {
	ctx, stop := context.WithCancel(context.Background())
	m, err := berth.New(ctx, slices.Concat(flags, args), append([]berth.Option{berth.WithRESTConfig(config)}, with...)...)
	if err != nil {
		stop()
		return nil, err
	}
	ended := make(chan struct{})
	var result error
	go func() {
		defer close(ended)
		result = m.Run(ctx)
	}()
	return &InProcess{Manager: m, Ended: ended, Stop: sync.OnceValue(func() error {
		stop()
		<-ended
		return result
	})}, nil
}
