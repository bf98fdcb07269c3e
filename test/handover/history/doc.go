// Package history records what a cluster went through, each version of each pod
// and node in the order in which the API server wrote it, and says what was wrong
// with it: a pod that was bound twice, a node that holds more than it offers, a
// leader that bound after its successor had, a pod that waits where there is room.
//
// It knows nothing of the scheduler under test but the annotation on what that
// bound. The record is a watch without bookmarks from the first version on; a
// watch that breaks is taken up where it broke, and one that cannot be is a fault:
// a history with a hole shows nothing.
package history
