// Command perf measures Berth against kube-scheduler and the null binder, in
// one run on one machine:
//
//   - the algorithm alone: both sides replay one log without an API server, and
//     only equal decisions are compared;
//   - whole processes: each side in turn on a fresh etcd and a real API server,
//     round by round, with the CPU time of every process.
//
// It prints tables and writes JSON. A number says what was run; a ratio is
// printed only where both sides were shown to decide the same.
//
//	go run ./test/perf --nodes=50 --existing=0 --pods=200 --rounds=1
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = perf(ctx, o, os.Stdout)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "bench: failed:", err)
		os.Exit(1)
	}
	fmt.Println("bench: ok")
}
