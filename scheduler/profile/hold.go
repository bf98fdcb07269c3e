package profile

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/queue"
)

// Pause holds the pods of the profile, or lets them go on. What runs is kept.
func (s *Set) SetPaused(name string, paused bool) {
	slot := s.lockProfile(name)
	defer slot.changeMu.Unlock()
	s.mu.Lock()
	changed := slot.paused != paused
	slot.paused = paused
	current := slot.current
	s.mu.Unlock()
	if changed && current != nil {
		s.options.Log.Info("The profile's state changed", "profile", name, "paused", paused)
		s.options.Queue.SetProfile(context.Background(), name, current.queueRules(s.holdFunc(slot, name), paused))
	}
}

// Hold holds the pods of a name under which nothing runs, and tells them why. Where
// something runs it does nothing.
func (s *Set) Hold(name, why string) {
	slot := s.lockProfile(name)
	defer slot.changeMu.Unlock()
	s.mu.Lock()
	same := slot.current != nil || slot.heldReason == why
	if !same {
		slot.heldReason = why
	}
	s.mu.Unlock()
	if same {
		return
	}
	s.options.Queue.HoldProfile(context.Background(), name, queue.Hold{Reason: queue.ProfileNotRunning, Message: why})
	s.options.Log.Info("The profile does not run; its pods are held", "profile", name, "why", why)
}

// Delete stops serving the name: its pods are parked until a profile of that
// name comes back.
func (s *Set) Delete(name string) {
	slot := s.lockProfile(name)
	defer slot.changeMu.Unlock()
	// Who comes for the same name waits until the pods are parked.
	s.mu.Lock()
	current, withheld := slot.current, slot.heldReason != ""
	slot.current, slot.heldReason = nil, ""
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
	s.options.Log.Info("The profile is gone; its pods are parked", "profile", name)
}

// Gone holds the pods of a profile that was deleted before this process heard of it. Where
// something runs under the name, or its pods are held, it does nothing.
func (s *Set) HoldDeleted(name string) {
	slot := s.lockProfile(name)
	defer slot.changeMu.Unlock()
	s.mu.Lock()
	here := slot.current != nil || slot.heldReason != ""
	s.mu.Unlock()
	if here {
		return
	}
	// The first looks for the pods, the second lets those be that come later: another
	// scheduler may serve the name by then.
	s.options.Queue.HoldProfile(context.Background(), name, deletedHold(name))
	s.options.Queue.RemoveProfile(context.Background(), name, deletedHold(name))
	s.remove(name)
	s.forget(name)
	s.options.Log.Info("The profile was deleted earlier; its pods are held", "profile", name)
}

func deletedHold(name string) queue.Hold {
	return queue.Hold{
		Reason:  queue.ProfileDeleted,
		Message: fmt.Sprintf("SchedulingProfile %s was deleted: the pod waits until a profile of that name exists", name),
	}
}

// hold says why a pod of the profile must not be tried.
func (s *Set) holdFunc(slot *profileState, name string) func(*v1.Pod) queue.Hold {
	return func(pod *v1.Pod) queue.Hold {
		s.mu.Lock()
		paused := slot.paused
		var allowed labels.Selector
		if slot.current != nil {
			allowed = slot.current.Blueprint().Namespaces
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
		if !s.namespaceAllowed(allowed, pod.Namespace) && !fault.EveryNamespaceAllowed {
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
