package state

import "github.com/berthdev/berth/scheduler/sandbox"

// Fill tells the scheduler what there is, as the manager's informers would, and
// returns how many pods wait for the profile that hold no room yet.
func (s *State) Fill(scheduler *sandbox.Scheduler, p *Profile) (waiting int, err error) {
	for _, object := range s.Others {
		if err := scheduler.SetObject(object); err != nil {
			return 0, err
		}
	}
	for _, node := range s.Nodes {
		scheduler.SetNode(nil, node)
	}
	for _, pod := range s.Pods {
		promised := pod.Status.NominatedNodeName != "" && p.Serves(pod.Spec.SchedulerName)
		if pod.Spec.NodeName == "" && pod.Spec.SchedulerName == p.Name && len(pod.Spec.SchedulingGates) == 0 && !promised {
			waiting++
		}
		if pod.Spec.NodeName == "" && !promised {
			continue
		}
		if err := scheduler.SetPod(nil, pod); err != nil {
			return 0, err
		}
	}
	return waiting, nil
}
