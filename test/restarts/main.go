// Command restarts replaces the leading manager again and again, as a rolling
// update does, while pods come without a pause: is each of them bound, and once,
// and for how long was none?
//
//	go run ./test/restarts --restarts=20
//
// It prints what it saw and ends with "restarts: ok", or says what is wrong.
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
		err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "restarts: failed:", err)
		os.Exit(1)
	}
	fmt.Println("restarts: ok")
}
