// Command devicedriver is a driver of Dynamic Resource Allocation whose devices do not
// exist, for tests, demonstrations and the documentation.
//
//	devicedriver publish   publishes a ResourceSlice for each node that a label selector
//	                       selects, such as KWOK's, until it is interrupted
//	devicedriver kubelet   is the plugin of one real node: it publishes the node's
//	                       ResourceSlice, and prepares claims for the kubelet
//
// A container with a device of `devicedriver kubelet` has an environment variable for it,
// GPU_DEVICE_0=gpu-0 for the first device of the node.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const usage = `devicedriver publishes devices that do not exist.

  devicedriver publish   ResourceSlices for nodes without a kubelet, such as KWOK's
  devicedriver kubelet   the plugin of one real node

--help after either lists its flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "devicedriver:", err)
		os.Exit(1)
	}
}

// run runs the command that args name until ctx ends, and writes its output to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command: want publish or kubelet; --help describes them")
	}
	switch name, rest := args[0], args[1:]; name {
	case "publish":
		return runPublish(ctx, rest, out)
	case "kubelet":
		return runKubelet(ctx, rest, out)
	case "help", "-h", "--help":
		_, err := io.WriteString(out, usage)
		return err
	default:
		return fmt.Errorf("unknown command %q: want publish or kubelet", name)
	}
}

// commonFlags are the flags of both commands.
type commonFlags struct {
	kubeconfig, driver string
	devices            deviceFlags
}

func newFlags(name string, out io.Writer) (*pflag.FlagSet, *commonFlags) {
	f, c := pflag.NewFlagSet("devicedriver "+name, pflag.ContinueOnError), &commonFlags{}
	f.SetOutput(out)
	f.SortFlags = false
	f.StringVar(&c.driver, "driver", "gpu.example.com", "the name of the driver")
	c.devices.add(f)
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "the kubeconfig; by default the one that kubectl uses, or the pod's account")
	return f, c
}

// parse parses the arguments and validates the flags of both commands.
func (c *commonFlags) parse(f *pflag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are taken", f.Arg(0))
	}
	// The limit of ResourceSlice.spec.driver.
	const most = 63
	if problems := validation.IsDNS1123Subdomain(c.driver); len(problems) > 0 {
		return fmt.Errorf("--driver %q is invalid: %s", c.driver, strings.Join(problems, "; "))
	} else if len(c.driver) > most {
		return fmt.Errorf("--driver %q is invalid: must be no more than %d characters", c.driver, most)
	}
	return nil
}

// client returns a client for the cluster of --kubeconfig.
func (c *commonFlags) client() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	// A thousand nodes take seconds, not minutes.
	config.QPS, config.Burst = 100, 200
	return kubernetes.NewForConfig(config)
}
