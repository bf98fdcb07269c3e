package faults

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/operator"
)

// shortLease are the flags of a Lease that is over soon.
var shortLease = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=300ms"}

// launch is how a manager is started.
type launch struct {
	// kubeconfig is the path of its configuration; empty for that of its account.
	kubeconfig string
	flags      []string
	// environment are variables, each as NAME=value.
	environment []string
}

// replica is a manager that is started again when it ends, as the kubelet would.
type replica struct {
	launch
	stop, stopped chan struct{}

	mu sync.Mutex
	// starts are all managers so far; the last one is the current one.
	starts []*operator.Manager
}

// startReplica starts a replica until the spec ends.
func (e *testEnv) startReplica(ctx context.Context, l launch) *replica {
	GinkgoHelper()
	if l.kubeconfig == "" {
		l.kubeconfig = e.kubeconfig("manager", e.accountConfig(ctx))
	}
	l.flags = append([]string{"--default-profile=", "--crash-output-dir=" + GinkgoT().TempDir()}, l.flags...)
	r := &replica{launch: l, stop: make(chan struct{}), stopped: make(chan struct{})}
	Expect(r.start(e)).To(Succeed())
	go r.supervise(e)
	DeferCleanup(r.end)
	Eventually(func() error { return r.manager().Ready(ctx) }).Should(Succeed(), r.logs)
	return r
}

// end ends the replica.
func (r *replica) end() {
	select {
	case <-r.stopped:
	default:
		close(r.stop)
		<-r.stopped
	}
	if CurrentSpecReport().Failed() {
		GinkgoWriter.Println(r.logs())
	}
}

// start starts a manager.
func (r *replica) start(e *testEnv) error {
	for _, variable := range r.environment {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer os.Unsetenv(name)
	}
	m, err := operator.StartWith(e.cp, e.manager, r.kubeconfig, r.flags...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = append(r.starts, m)
	return nil
}

// supervise starts the manager again when it has ended.
func (r *replica) supervise(e *testEnv) {
	defer GinkgoRecover()
	defer close(r.stopped)
	for {
		m := r.manager()
		select {
		case <-r.stop:
			_ = m.Signal(syscall.SIGCONT) // a stopped process gets no SIGTERM
			e.cp.End(m.Process)
			return
		case <-m.Ended():
			e.cp.End(m.Process) // the control plane does not count it as a failure
			Expect(r.start(e)).To(Succeed())
		}
	}
}

func (r *replica) manager() *operator.Manager {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts[len(r.starts)-1]
}

// restarts returns how often the manager was started again.
func (r *replica) restarts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.starts) - 1
}

// logs returns the logs of all starts.
func (r *replica) logs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	for i, m := range r.starts {
		log, err := os.ReadFile(m.Log())
		fmt.Fprintf(&text, "manager, start %d, %v:\n%s\n", i+1, err, log)
	}
	return text.String()
}

// crashes returns the lines of the logs that report a crash.
func (r *replica) crashes() []string {
	return regexp.MustCompile(`(?m)^.*(panic:|fatal error:|Observed a panic|DATA RACE).*$`).FindAllString(r.logs(), -1)
}

// leads reports whether the current manager schedules.
func (r *replica) leads() bool {
	log, err := os.ReadFile(r.manager().Log())
	return err == nil && strings.Contains(string(log), `"msg":"Scheduling"`)
}

// probeTimeout is how long a probe may take: a stopped process does not answer.
const probeTimeout = 2 * time.Second

// live returns an error where the kubelet would restart the manager: its liveness probe fails.
// One that does not answer has just started, or is stopped.
func (r *replica) live(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := operator.Get(ctx, "http://"+r.manager().Probes+"/livez")
	if err == nil && answer != "200 ok" {
		return fmt.Errorf("/livez answers %s", answer)
	}
	return nil
}

// usage is what a process holds.
type usage struct{ Goroutines, Files int }

var goroutineTotal = regexp.MustCompile(`^goroutine profile: total (\d+)`)

// usage returns what the current manager holds.
func (r *replica) usage(ctx context.Context) (u usage, err error) {
	m := r.manager()
	text, err := read(ctx, "http://"+m.Profiles+"/debug/pprof/goroutine?debug=1", "")
	if err != nil {
		return u, err
	}
	total := goroutineTotal.FindSubmatch(text)
	if total == nil {
		return u, fmt.Errorf("no number of goroutines in %.80q", text)
	}
	if u.Goroutines, err = strconv.Atoi(string(total[1])); err != nil {
		return u, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.PID()))
	u.Files = len(files)
	return u, err
}
