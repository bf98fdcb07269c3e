// Package simulation runs the real loop, queue, cache, cycle, profiles and bindings
// on a virtual clock against a model of the API server, one step at a time.
// A seed decides everything: what users do to pods, nodes and profiles, which
// answers get lost, how far the watches lag, and which piece of work goes on
// next. One seed, one history.
//
// Every piece of work of the house (the loop, each binding, each writer of
// statuses, each informer's handlers, each profile's reconciler) is a task: a
// goroutine that runs only while it holds the baton. It gives the baton back
// where it waits (for an answer, for time, for other work) and, now and then,
// inside a plugin's call, so that other work comes in between there. Nobody
// holds a lock then.
//
// In every third history one of the plugins is not built in: attempts with it
// are made beside the loop, as tasks of their own, and in half of those histories
// it takes its time, or more than anybody waits for.
//
// In every fourth history leaders are elected. One that is frozen has a successor, and
// what it has sent arrives at any later moment: see leaders.go.
//
// While it goes on, and once more at rest, the world is held to what must
// always be true: see check.go. Seeds that once broke it are kept in seeds/.
package simulation
