// Package scope lends the house's informers to one generation of a profile,
// and takes back all that the generation made of them: its handlers, its
// indexes, and the informers that nobody else wants.
//
// client-go's shared informers forget none of these by themselves: a handler
// whose registration is dropped is called for ever, an index cannot be
// removed, and a factory stops all its informers or none.
//
// An index of a generation is read as the informer's store is at that moment. It
// is not fed by a handler, which would run beside the handlers that wake pods.
//
// It also listens, for as long as some generation wants to hear of it, to what
// nobody in the house watches: kinds that a cluster may not serve, and custom
// resources that are yet to come.
package scopedinformers
