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

// RemoveNode removes a node. The cache complains of one that it does not know,
// which a World never names.
func (s *Scheduler) RemoveNode(last *v1.Node) { _ = s.scheduler.Cache.RemoveNode(s.log, last) }

// SetPod hands a pod with a node to the cache, and one without to the queue,
// which keeps the nominations.
func (s *Scheduler) SetPod(before, after *v1.Pod) error {
	if after.Spec.NodeName == "" {
		return s.waits(before, after)
	}
	if err := s.leaves(after); err != nil {
		return err
	}
	assumed, err := s.scheduler.Cache.IsAssumedPod(after)
	if err != nil {
		return inCache(err)
	}
	if _, unknown := s.scheduler.Cache.GetPod(after); unknown == nil && !assumed {
		return inCache(s.scheduler.Cache.UpdatePod(s.log, before, after))
	}
	return inCache(s.scheduler.Cache.AddPod(s.log, after))
}

func (s *Scheduler) waits(before, after *v1.Pod) error {
	if assumed, err := s.scheduler.Cache.IsAssumedPod(after); assumed || err != nil {
		return inCache(err)
	}
	_, listed, err := s.listed.Get(after)
	if err != nil {
		return err
	}
	if err := s.listed.Update(after); err != nil {
		return err
	}
	if before == nil || !listed {
		s.scheduler.SchedulingQueue.Add(s.ctx, after)
	} else {
		s.scheduler.SchedulingQueue.Update(s.ctx, before, after)
	}
	return nil
}

// leaves takes a pod out of the queue, if it is there.
func (s *Scheduler) leaves(pod *v1.Pod) error {
	known, listed, err := s.listed.Get(pod)
	if err != nil || !listed {
		return err
	}
	s.scheduler.SchedulingQueue.Delete(s.log, known.(*v1.Pod))
	return s.listed.Delete(known)
}

// RemovePod removes a pod from wherever it is.
func (s *Scheduler) RemovePod(last *v1.Pod) error {
	if err := s.leaves(last); err != nil {
		return err
	}
	known, unknown := s.scheduler.Cache.GetPod(last)
	if unknown != nil {
		return nil // it was refused, and is nowhere
	}
	if assumed, err := s.scheduler.Cache.IsAssumedPod(last); assumed || err != nil {
		return errors.Join(inCache(err), inCache(s.scheduler.Cache.RemoveAssumedPod(s.log, known)))
	}
	return inCache(s.scheduler.Cache.RemovePod(s.log, known))
}

func inCache(err error) error {
	if err != nil {
		return fmt.Errorf("kube-scheduler's cache: %w", err)
	}
	return nil
}
