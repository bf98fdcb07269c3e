package faultproxy

import (
	"net/http"
	"strings"
)

// Kind is a kind of writes.
type Kind struct {
	// Method is the HTTP method; Resource and Subresource are those of the path.
	Method, Resource, Subresource string
}

// Is reports whether a write is of this kind, in a namespace.
func (k Kind) Is(w Write, namespace string) bool {
	_, path, found := strings.Cut(w.Path, "/namespaces/"+namespace+"/")
	parts := append(strings.Split(path, "/"), "", "")
	return found && w.Method == k.Method && parts[0] == k.Resource && parts[2] == k.Subresource
}

// SetAllFaults sets the function that returns the fault of each write, Bindings included, as
// SetFaults and SetWriteFaults do for each of them; nil: no faults.
func (p *Proxy) SetAllFaults(decide func(Write) *Fault) {
	p.SetWriteFaults(decide)
	if decide == nil {
		p.SetFaults(nil)
		return
	}
	p.SetFaults(func(b Binding) *Fault {
		return decide(Write{Method: http.MethodPost, Path: "/api/v1/namespaces/" + b.Namespace + "/pods/" + b.Pod + "/binding"})
	})
}

// CutAround returns the fault of a write whose client gets no response: do is called before the
// write, which is dropped, or after it took effect.
func CutAround(after bool, do func()) *Fault {
	if !after {
		do()
		return &Fault{}
	}
	return &Fault{Commits: true, Answer: func(w http.ResponseWriter, r *http.Request) {
		do()
		Cut(w, r)
	}}
}
