// Package crashes kills the manager with SIGKILL before and after each of its writes, and at
// each step between two writes, and tests that the next process completes what was begun.
//
// What the writes are is not listed by hand. FaultPoints finds each place in the code that
// writes to the API server; Rows says which scenario reaches it, and a test compares the two.
// A reference run of a scenario, without a crash, shows the writes that the manager really
// sends. A cell is one of these writes and a Moment. In a cell the manager is killed at that
// moment, another process takes over, and the scenario must reach what it reaches without a
// crash; then package checker decides the invariants from the history of the cell and the audit
// log, and the suite what only the scenario knows.
package crashes
