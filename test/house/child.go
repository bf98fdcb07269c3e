package house

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/berthdev/berth/test/controlplane"
	"github.com/berthdev/berth/test/operator"
)

// childOf names, in a house that is a process of its own, the kubeconfig of its
// ServiceAccount.
const childOf = "BERTH_HOUSE_CHILD"

// IsChild says whether this process was started as a house.
func IsChild() bool { return os.Getenv(childOf) != "" }

// BeChild is the house of such a process, until it is told to end: a test's
// binary has plugins that no other has.
func BeChild(options func(*rest.Config) Options) { Serve(os.Getenv(childOf), options) }

// Serve runs a house that is all there is in a process, until that is told to end.
func Serve(kubeconfig string, options func(*rest.Config) Options) {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		panic(err)
	}
	cfg.QPS = -1
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, err := Start(options(cfg))
	if err != nil {
		panic(err)
	}
	<-ctx.Done()
	if err := h.Stop(); err != nil {
		panic(err)
	}
}

// Child is a house that is a process of its own: it may die.
type Child struct {
	command *exec.Cmd
	// Ended is closed when it has.
	Ended chan struct{}
}

// StartChild starts a house beside the test, which must have stopped its own.
// What it says goes to out; environment is what it is told besides, each as
// NAME=value.
func StartChild(ctx context.Context, cp *controlplane.ControlPlane, out io.Writer, environment ...string) (*Child, error) {
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, operator.Namespace, operator.Account)
	if err != nil {
		return nil, err
	}
	c := &Child{command: exec.Command(os.Args[0]), Ended: make(chan struct{})}
	c.command.Env = append(append(os.Environ(), childOf+"="+kubeconfig), environment...)
	c.command.Stdout, c.command.Stderr = out, out
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.Ended)
		_ = c.command.Wait()
	}()
	return c, nil
}

// Kill ends it without a warning.
func (c *Child) Kill() {
	_ = c.command.Process.Kill()
	<-c.Ended
}

// Term asks it to end.
func (c *Child) Term() error { return c.command.Process.Signal(syscall.SIGTERM) }
