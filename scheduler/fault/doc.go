// Package fault names faults that can be planted in Berth, so that it can be
// shown that a test finds each of them: see test/mutants.
//
// In a normal build every fault is the constant false, and whatever stands
// behind it is not compiled. With the build tag "mutants" each is a variable,
// and the one that the environment variable BERTH_FAULT names is true.
//
// A fault is one condition at the place that it breaks. It says what would be
// wrong, not what would be right: a reader who takes every fault for false
// reads the program as it is.
package fault
