// Command soak puts a crowd of pods on a real API server while the profile that
// binds them is changed again and again, and then asks the API server: are all
// pods there and bound, was none bound twice, is no node over what it offers,
// and did each decision come from a profile that was there?
//
//	go run ./test/soak --nodes=500 --pods=2000
//
// With --handovers or --kills it has managers take over from each other instead,
// and replays what the cluster went through: see test/handover.
//
// It prints what it saw and ends with "soak: ok", or says what is wrong.
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
	switch {
	case err != nil:
	case o.handovers+o.kills > 0:
		err = takeovers(ctx, o, os.Stdout)
	default:
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "soak: failed:", err)
		os.Exit(1)
	}
	fmt.Println("soak: ok")
}
