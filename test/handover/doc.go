// Package handover is a stage on which one manager takes over from another: two
// API servers on one etcd, two managers as they are shipped, each on its way to an
// API server of its own through a proxy of the test's, one node of 110 places, and
// 300 pods of which some go all the time while others come. What each handover is
// preceded by is a Kind.
//
// All that the cluster goes through is recorded, and in the end replayed version
// by version: package history.
package handover
