package profile

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/scheduler/queue"
)

// SetPaused holds the profile's pods, or releases them. The Generation keeps running.
func (s *Set) SetPaused(name string, paused bool) {
	state := s.lockProfile(name)
	defer state.changeMu.Unlock()
	s.mu.Lock()
	changed := state.paused != paused
	state.paused = paused
	current := state.current
	s.mu.Unlock()
	if changed && current != nil {
		s.options.Log.Info("The profile's state changed", "profile", name, "paused", paused)
		s.options.Queue.SetProfile(context.Background(), name, current.queueRules(s.holdFunc(state, name), paused))
	}
}

// Hold holds the pods of a profile that does not run, with why as the message. If the
// profile runs, Hold does nothing.
func (s *Set) Hold(name, why string) {
	state := s.lockProfile(name)
	defer state.changeMu.Unlock()
	s.mu.Lock()
	unchanged := state.current != nil || state.heldReason == why
	if !unchanged {
		state.heldReason = why
	}
	s.mu.Unlock()
	if unchanged {
		return
	}
	s.options.Queue.HoldProfile(context.Background(), name, queue.Hold{Reason: queue.ProfileNotRunning, Message: why})
	s.options.Log.Info("The profile does not run; its pods are held", "profile", name, "why", why)
}

// Release takes back Hold for a name that another scheduler may serve: its pods are left to that
// one as they are. If the profile runs, or its pods are not held, Release does nothing.
func (s *Set) Release(name string) {
	state := s.lockProfile(name)
	defer state.changeMu.Unlock()
	s.mu.Lock()
	held := state.current == nil && state.heldReason != ""
	if held {
		state.heldReason = ""
	}
	s.mu.Unlock()
	if held {
		s.options.Queue.ReleaseProfile(context.Background(), name)
		s.options.Log.Info("Another scheduler may serve the profile's name; its pods are not held any more", "profile", name)
	}
}

// Delete removes the profile of this name. Its pods are held until a profile of that name
// is created.
func (s *Set) Delete(name string) {
	state := s.lockProfile(name)
	defer state.changeMu.Unlock()
	// changeMu keeps a new profile of the same name waiting until the pods are held.
	s.mu.Lock()
	current, withheld := state.current, state.heldReason != ""
	state.current, state.heldReason = nil, ""
	if current != nil {
		s.oldGenerations[name]++
	}
	s.mu.Unlock()
	if current == nil && !withheld {
		s.remove(name)
		s.forget(name)
		return
	}
	if current != nil {
		current.dropEquivalenceCache()
	}
	s.options.Queue.RemoveProfile(context.Background(), name, deletedHold(name))
	s.remove(name)
	if current == nil {
		s.forget(name)
		return
	}
	current.Release()
	s.options.Log.Info("The profile was deleted; its pods are held", "profile", name)
}

// HoldDeleted holds the pods of a profile that was deleted before this process started. If
// the profile runs, or its pods are held already, HoldDeleted does nothing.
func (s *Set) HoldDeleted(name string) {
	state := s.lockProfile(name)
	defer state.changeMu.Unlock()
	s.mu.Lock()
	served := state.current != nil || state.heldReason != ""
	s.mu.Unlock()
	if served {
		return
	}
	// HoldProfile holds the existing pods. RemoveProfile releases the name for pods that
	// are created later, since another scheduler may serve it by then.
	s.options.Queue.HoldProfile(context.Background(), name, deletedHold(name))
	s.options.Queue.RemoveProfile(context.Background(), name, deletedHold(name))
	s.remove(name)
	s.forget(name)
	s.options.Log.Info("The profile was deleted before this process started; its pods are held", "profile", name)
}

func deletedHold(name string) queue.Hold {
	return queue.Hold{
		Reason:  queue.ProfileDeleted,
		Message: fmt.Sprintf("SchedulingProfile %s was deleted: the pod waits until a profile of that name exists", name),
	}
}

// holdFunc returns the function that says why the queue must hold a pod of the profile.
func (s *Set) holdFunc(state *profileState, name string) func(*v1.Pod) queue.Hold {
	return func(pod *v1.Pod) queue.Hold {
		s.mu.Lock()
		paused := state.paused
		var allowed labels.Selector
		if state.current != nil {
			allowed = state.current.Blueprint().Namespaces
		}
		s.mu.Unlock()
		if paused {
			return queue.Hold{
				Reason:  queue.ProfilePaused,
				Message: fmt.Sprintf("SchedulingProfile %s is paused: the pod waits until its spec.state is Active", name),
			}
		}
		if err := s.TooManyAbandonedCalls(name); err != nil {
			return queue.Hold{Reason: queue.Quarantined, Message: err.Error()}
		}
		if !s.namespaceAllowed(allowed, pod.Namespace) {
			return queue.Hold{
				Reason: queue.NamespaceNotAllowed,
				Message: fmt.Sprintf("SchedulingProfile %s takes no pods of namespace %s: the pod waits until spec.allowedNamespaces matches the namespace's labels",
					name, pod.Namespace),
			}
		}
		if field, why := s.options.Unsupported(pod); field != "" {
			return queue.Hold{Reason: queue.Unsupported, Message: field + ": " + why}
		}
		return queue.Hold{}
	}
}

// namespaceAllowed reports whether the profile may schedule pods of a namespace. Before the
// caches have synced it allows all namespaces; no pod is scheduled by then.
func (s *Set) namespaceAllowed(allowed labels.Selector, namespace string) bool {
	if allowed == nil || s.options.Namespaces == nil || !s.cachesSynced() {
		return true
	}
	known, err := s.options.Namespaces.Get(namespace)
	return err == nil && allowed.Matches(labels.Set(known.Labels))
}

func (s *Set) cachesSynced() bool {
	if s.options.CachesSynced == nil {
		return true
	}
	select {
	case <-s.options.CachesSynced:
		return true
	default:
		return false
	}
}

// NamespaceChanged rechecks the holds of profiles that allowed the namespace before the
// change and do not after it, or the reverse. before and after are its labels; nil if it
// did or does not exist.
func (s *Set) NamespaceChanged(name string, before, after labels.Set) {
	if !s.cachesSynced() {
		return // NamespacesSynced rechecks all
	}
	s.recheckHolds(name, func(allowed labels.Selector) bool {
		return (before != nil && allowed.Matches(before)) != (after != nil && allowed.Matches(after))
	})
}

// NamespacesSynced rechecks the holds of all profiles that allow some namespaces only. It is
// called once the namespaces are known.
func (s *Set) NamespacesSynced() {
	s.recheckHolds("", func(labels.Selector) bool { return true })
}

// recheckHolds lets the queue check again, in another goroutine, whether pods of namespace,
// or of all namespaces if that is empty, are held. concerned selects profiles by their
// allowed namespaces.
func (s *Set) recheckHolds(namespace string, concerned func(labels.Selector) bool) {
	for _, name := range s.Names() {
		running, ok := s.Running(name)
		if ok && running.Blueprint.Namespaces != nil && concerned(running.Blueprint.Namespaces) {
			s.options.Go(func() { s.options.Queue.RecheckHolds(context.Background(), name, namespace) })
		}
	}
}
