// The demo shows the main features of Berth on a real control plane: a profile binds pods,
// the profile is changed while pods arrive, an invalid change is rejected, and every
// decision has a reason. It checks everything that it prints with the API server and fails
// if the API server says otherwise.
//
// It needs only Go and git. The first run compiles Kubernetes, which takes about ten minutes
// on two cores; later runs take about a minute.
//
//	DEMO_KEEP=1   leave everything running, and print the KUBECONFIG
//
// With --on FOLDER, the demo runs on the control plane that another program runs in that
// folder. It must have 50 nodes and Berth installed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	on := flag.String("on", "", "the `folder` of a running control plane with 50 nodes and Berth installed")
	flag.Parse()
	err := run(ctx, settings{out: os.Stdout, keep: os.Getenv("DEMO_KEEP") == "1", attachTo: *on})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		os.Exit(1)
	}
	fmt.Println("demo: ok")
}
