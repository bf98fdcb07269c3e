// Replay runs a log of a cluster through Berth's cache, cycle and plugins,
// without an API server, and prints one decision a line:
//
//	go run ./test/replay [--profile FILE.yaml] [--bench] [--explain] [--preempt] LOG.jsonl
//
// The log's format is that of scheduler/sandbox/log, and kubectl berth record writes
// one of a live cluster; what the flags mean is said by --help.
package main

import (
	"os"

	"github.com/berthdev/berth/test/replay/run"
)

func main() {
	os.Exit(run.Command("replay", os.Args[1:], run.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, run.OpenBerth))
}
