// Replay runs a recorded history of a cluster through Berth's cache, cycle and plugins,
// without an API server, and prints one decision a line:
//
//	go run ./test/replay [--profile FILE.yaml] [--bench] [--explain] [--preempt]
//
// # LOG.jsonl
//
// The log has the format of scheduler/sandbox/log; kubectl berth record writes one of a live
// cluster. --help describes the flags.
package main

import (
	"os"

	"github.com/berthdev/berth/test/replay/run"
)

func main() {
	os.Exit(run.Command("replay", os.Args[1:], run.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, run.OpenBerth))
}
