package simulation

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errLost is what a client sees of a connection that broke.
var errLost = errors.New("the connection was lost")

// request is one call on its way to the API server and back.
type request struct {
	verb, what string
	commit     func() (*v1.Pod, error)
	// arrived says that the server has dealt with it; answered, that the
	// caller knows.
	arrived, answered bool
	// held says that it does not arrive before the next leader has decided something.
	held bool
	pod  *v1.Pod
	err  error
}

// call sends a request and waits for its answer. A loop that goes on has no
// reason to call one off: what it asks for, it needs. A limit that ctx has is
// one of real time, and does not count.
func (w *world) call(ctx context.Context, verb, what string, commit func() (*v1.Pod, error)) (*v1.Pod, error) {
	r := &request{verb: verb, what: what, commit: commit}
	w.requests = append(w.requests, r)
	w.say("%s: %s", w.tasks.current.name, what)
	w.tasks.park(func() bool { return r.answered })
	if errors.Is(ctx.Err(), context.Canceled) {
		w.fail("%q is called off by its caller", what)
	}
	return r.pod, r.err
}

// fate is what may happen to a request on its way.
type fate struct {
	name string
	// commits says that the write takes place; late, that it does so after the
	// caller has given up.
	commits, late bool
	// answer is what the caller gets; nil: the truth.
	answer error
}

var fates = []fate{
	{name: "loses its answer", commits: true, answer: errLost},
	{name: "is lost", answer: errLost},
	{name: "is lost for its caller, and not for good", late: true, answer: errLost},
	{name: "is committed and answered with 500", commits: true, answer: apierrors.NewInternalError(errLost)},
	{name: "is answered with 500", answer: apierrors.NewInternalError(errLost)},
	{name: "is answered with 429", answer: apierrors.NewTooManyRequests("later", 1)},
	{name: "is answered with a conflict that is none", answer: apierrors.NewConflict(podResource, "", errLost)},
	{name: "times out in the server", commits: true, answer: apierrors.NewTimeoutError("slow", 1)},
	{name: "is forbidden", answer: apierrors.NewForbidden(podResource, "", errLost)},
}

// arrive lets the server deal with r, rightly or not.
func (w *world) arrive(r *request) {
	r.arrived = true
	if !w.healed && w.chance(w.risk(r.verb)) {
		f := fates[w.dice.IntN(len(fates))]
		if often, ok := w.swarm.often[r.verb]; ok && w.chance(0.7) {
			f = often
		}
		w.count(r.verb + " " + f.name)
		w.say("server: %q %s", r.what, f.name)
		if f.commits {
			_, _ = r.commit()
		}
		if f.late {
			w.ghosts = append(w.ghosts, r)
		}
		r.err = f.answer
		return
	}
	r.pod, r.err = r.commit()
	if r.err != nil {
		w.count(r.verb + " refused")
		w.say("server: %q refused: %v", r.what, r.err)
	} else {
		w.count(r.verb + " done")
		w.say("server: %q done", r.what)
	}
}

// answer tells the caller of r what came of it.
func (w *world) answer(i int) {
	w.requests[i].answered = true
	w.requests = append(w.requests[:i:i], w.requests[i+1:]...)
}

// haunt lets a write come true, or not, whose caller has given up.
func (w *world) haunt(i int) {
	r := w.ghosts[i]
	w.ghosts = append(w.ghosts[:i:i], w.ghosts[i+1:]...)
	if w.chance(0.2) {
		w.say("server: %q never comes", r.what)
		return
	}
	_, err := r.commit()
	if err == nil {
		w.count("late " + r.verb + " done")
	} else {
		w.count("late " + r.verb + " refused")
	}
	w.say("server: %q comes late: %v", r.what, err)
}
