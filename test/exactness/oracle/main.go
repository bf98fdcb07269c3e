// Oracle runs kube-scheduler behind the command line of test/replay: the same flags, the same
// log, the same output, so that diff can compare the two, and --bench the costs.
//
//	go run . [--profile FILE.yaml] [--bench] [--explain] [--preempt] LOG.jsonl
package main

import (
	"os"

	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

func main() {
	os.Exit(run.Command("oracle", os.Args[1:], run.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, upstream.Open))
}
