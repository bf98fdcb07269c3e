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
	"io"

	"github.com/berthdev/berth/test/support/command"
)

func main() {
	command.Main("bench", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return perf(ctx, o, out)
	})
}
