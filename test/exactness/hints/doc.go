// Package hints proves that no refused pod is forgotten. Random changes happen
// to small clusters in which pods wait that one plugin refused; whenever a node
// that the plugin kept from a pod would do after a change, the pod must have
// been woken: the informer's event went through the real intake, and the real
// queue matched it against what the plugin registered and asked its hint.
//
// The plugin is alone in its profile. Of a pod that it keeps from some nodes
// only, the others are taken to have been refused by somebody else, so that
// each node that opens counts, not only the first.
package hints
