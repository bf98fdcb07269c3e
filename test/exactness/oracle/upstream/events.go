package upstream

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// SetNode adds or updates a node, as kube-scheduler's handlers do.
func (s *Scheduler) SetNode(before, after *v1.Node) {
	if before == nil {
		s.scheduler.Cache.AddNode(s.log, after)
		return
	}
	s.scheduler.Cache.UpdateNode(s.log, before, after)
}

// RemoveNode removes a node. The cache returns an error for one that it does not know, which a
// Cluster never removes.
func (s *Scheduler) RemoveNode(last *v1.Node) { _ = s.scheduler.Cache.RemoveNode(s.log, last) }

// SetPod adds or updates a pod with a node in the cache, and one without in the queue, which
// has the nominations.
func (s *Scheduler) SetPod(before, after *v1.Pod) error {
	if after.Spec.NodeName == "" {
		return s.addPending(before, after)
	}
	if err := s.removePending(after); err != nil {
		return err
	}
	assumed, err := s.scheduler.Cache.IsAssumedPod(after)
	if err != nil {
		return cacheError(err)
	}
	if _, unknown := s.scheduler.Cache.GetPod(after); unknown == nil && !assumed {
		return cacheError(s.scheduler.Cache.UpdatePod(s.log, before, after))
	}
	return cacheError(s.scheduler.Cache.AddPod(s.log, after))
}

func (s *Scheduler) addPending(before, after *v1.Pod) error {
	if assumed, err := s.scheduler.Cache.IsAssumedPod(after); assumed || err != nil {
		return cacheError(err)
	}
	_, listed, err := s.podStore.Get(after)
	if err != nil {
		return err
	}
	if err := s.podStore.Update(after); err != nil {
		return err
	}
	switch {
	case before == nil || !listed:
		s.scheduler.SchedulingQueue.Add(s.ctx, after)
	case (before.Spec.SchedulingGroup == nil) != (after.Spec.SchedulingGroup == nil):
		// A pod keeps its group in the API. Histories put known pods into groups.
		s.scheduler.SchedulingQueue.Delete(s.log, before)
		s.scheduler.SchedulingQueue.Add(s.ctx, after)
	default:
		s.scheduler.SchedulingQueue.Update(s.ctx, before, after)
	}
	return nil
}

// removePending removes a pod from the queue, if it is there.
func (s *Scheduler) removePending(pod *v1.Pod) error {
	known, listed, err := s.podStore.Get(pod)
	if err != nil || !listed {
		return err
	}
	s.scheduler.SchedulingQueue.Delete(s.log, known.(*v1.Pod))
	return s.podStore.Delete(known)
}

// RemovePod removes a pod from cache or queue.
func (s *Scheduler) RemovePod(last *v1.Pod) error {
	if err := s.removePending(last); err != nil {
		return err
	}
	known, unknown := s.scheduler.Cache.GetPod(last)
	if unknown != nil {
		return nil // it was refused, and is in neither
	}
	if assumed, err := s.scheduler.Cache.IsAssumedPod(last); assumed || err != nil {
		return errors.Join(cacheError(err), cacheError(s.scheduler.Cache.RemoveAssumedPod(s.log, known)))
	}
	return cacheError(s.scheduler.Cache.RemovePod(s.log, known))
}

func cacheError(err error) error {
	if err != nil {
		return fmt.Errorf("kube-scheduler's cache: %w", err)
	}
	return nil
}
