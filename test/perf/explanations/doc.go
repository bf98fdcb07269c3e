// Package explanations has many pods wait at once on a real API server, and counts
// by its audit log what explaining them writes.
package explanations
