package course

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// theDoor is what all of the scheduler's writes to pods go through. A scenario
// may shut it for some.
var theDoor = &door{}

type door struct {
	mu   sync.Mutex
	shut map[string]chan struct{}
	// knocks are the requests that came to where it was shut, as "VERB pod",
	// and held how many of them stand there.
	knocks []string
	held   int
}

// close shuts the door for writes such as "DELETE web", and returns what opens
// it again. A pod's name may be a prefix.
func (d *door) close(write string) (open func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut == nil {
		d.shut = map[string]chan struct{}{}
	}
	opened := make(chan struct{})
	d.shut[write] = opened
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.shut[write] == opened {
			delete(d.shut, write)
		}
		close(opened)
	})
}

// reset forgets what knocked.
func (d *door) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.knocks = nil
}

// standing are the writes that are held up now, each once.
func (d *door) standing() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == 0 {
		return nil
	}
	all := slices.Clone(d.knocks)
	slices.Sort(all)
	return slices.Compact(all)
}

func (d *door) wrap(next http.RoundTripper) http.RoundTripper {
	return through(func(r *http.Request) (*http.Response, error) {
		if err := d.pass(r); err != nil {
			return nil, err
		}
		return next.RoundTrip(r)
	})
}

// pass waits until the door is open for r.
func (d *door) pass(r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// api/v1/namespaces/NAMESPACE/pods/POD
	if len(parts) != 6 || parts[4] != "pods" || r.Method == http.MethodGet {
		return nil
	}
	knock := r.Method + " " + parts[5]
	d.mu.Lock()
	var opened chan struct{}
	for write, gate := range d.shut {
		if strings.HasPrefix(knock, write) {
			opened = gate
		}
	}
	if opened == nil {
		d.mu.Unlock()
		return nil
	}
	d.knocks, d.held = append(d.knocks, knock), d.held+1
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held--
	}()
	select {
	case <-opened:
		return nil
	case <-r.Context().Done():
		return fmt.Errorf("at the door: %w", r.Context().Err())
	}
}

// through is a function as a RoundTripper.
type through func(*http.Request) (*http.Response, error)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
