// Package fault names the mutations that the mutation tests apply to Berth: each must
// make a test fail. See test/simulation/mutations.
//
// In a normal build every constant is false, and the compiler drops the code behind it.
// With the build tag "mutants" each is a variable, and the one that the environment
// variable BERTH_FAULT names is true.
//
// A mutation is one condition at the place that it breaks. Its name says what would be
// wrong: a reader who takes every condition for false reads the real program.
package fault
