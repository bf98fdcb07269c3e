// Package load puts pods on a control plane and sees them bound: many workers
// side by side, as fast as they can or at a fixed rate, and one watch that
// notes when each pod got its node and that it kept it.
package load
