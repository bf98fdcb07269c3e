// The demo shows Berth's main job on a real control plane: pods are bound by a
// profile, the profile is switched live, a broken change is refused, and every
// decision says why. It asks the API server about each thing it prints, and
// fails where the answer is another.
//
// Go and git are all it needs. The first run compiles Kubernetes, which takes
// about ten minutes on two cores; later runs take about a minute.
//
//	DEMO_KEEP=1   leave everything running, and print the KUBECONFIG
//
// With --on FOLDER it tells its story on the control plane that another program runs
// in that folder, with 50 nodes, and Berth installed there in whatever way.
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
	on := flag.String("on", "", "the `folder` of a control plane that runs, with 50 nodes and Berth installed")
	flag.Parse()
	err := run(ctx, settings{out: os.Stdout, keep: os.Getenv("DEMO_KEEP") == "1", attachTo: *on})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		os.Exit(1)
	}
	fmt.Println("demo: ok")
}
