// Command soak puts a crowd of pods on a real API server while the profile that
// binds them is changed again and again, and then asks the API server: are all
// pods there and bound, was none bound twice, is no node over what it offers,
// and did each decision come from a profile that was there?
//
//	go run ./test/handover/soak --nodes=500 --pods=2000
//
// With --handovers or --kills it has managers take over from each other instead,
// and replays what the cluster went through: see test/handover.
//
// It prints what it saw and ends with "soak: ok", or says what is wrong.
package main

import (
	"context"
	"io"

	"github.com/berthdev/berth/test/support/command"
)

func main() {
	command.Main("soak", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		switch {
		case err != nil:
			return err
		case o.handovers+o.kills > 0:
			return takeovers(ctx, o, out)
		case o.backlog > 0:
			return backlog(ctx, o, out)
		}
		return run(ctx, o, out)
	})
}
