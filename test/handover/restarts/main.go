// Command restarts replaces the leading manager again and again, as a rolling
// update does, while pods come without a pause: is each of them bound, and once,
// and for how long was none?
//
//	go run ./test/handover/restarts --restarts=20
//
// It prints what it saw and ends with "restarts: ok", or says what is wrong.
package main

import (
	"context"
	"io"

	"github.com/berthdev/berth/test/support/command"
)

func main() {
	command.Main("restarts", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, o, out)
	})
}
