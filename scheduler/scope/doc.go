// Package scope lends the house's informers to one generation of a profile,
// and takes back all that the generation made of them: its handlers, its
// indexes, and the informers that nobody else wants.
//
// client-go's shared informers forget none of these by themselves: a handler
// whose registration is dropped is called for ever, an index cannot be
// removed, and a factory stops all its informers or none.
package scope
