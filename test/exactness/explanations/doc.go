// Package explanations holds explanations of refusals to what is so: of generated pods in
// generated clusters, what a near node is said to miss is all that it misses, and
// what is said to wake a pod does.
package explanations
