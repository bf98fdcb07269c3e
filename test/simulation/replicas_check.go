package simulation

import v1 "k8s.io/api/core/v1"

// checkReplicas checks what holds of all replicas at any moment: at most one process that runs
// certainly leads, and the queues are consistent.
func (sim *simulation) checkReplicas() {
	front, leader := sim.replica, ""
	for _, r := range sim.replicas {
		if r.dead || r.stopped {
			continue
		}
		if r.election.tracker.Err() == nil {
			if leader != "" {
				sim.failf("%s and %s lead at once", leader, r.name)
			}
			leader = r.name
		}
		if r != front {
			sim.use(r)
			sim.checkQueueAndCache()
		}
	}
	sim.use(front)
}

// checkStandbys checks, where the history is quiescent, that each standby could take over: it has
// the objects of the cluster, and runs the profiles.
func (sim *simulation) checkStandbys() {
	front := sim.replica
	for _, r := range sim.replicas {
		if r != front && sim.failure == nil {
			sim.use(r)
			sim.checkProfiles()
			sim.checkCache()
			sim.count("a standby is up to date at the end")
		}
	}
	sim.use(front)
}

// hasLeader says whether there is a leader, and a process on each replica.
func (sim *simulation) hasLeader() bool {
	if !sim.hasReplicas() {
		return true
	}
	for _, r := range sim.replicas {
		if r.dead || r.stopped {
			return false
		}
	}
	return sim.election.leads && sim.election.tracker.Err() == nil
}

// checkEpoch checks the epoch of a Binding that the server commits.
func (sim *simulation) checkEpoch(pod *v1.Pod) {
	if sim.hasReplicas() && sim.bindingEpoch < sim.decidedEpoch {
		sim.failf("%s was bound by the leader with epoch %d, after the one with epoch %d had placed a pod", describe(pod), sim.bindingEpoch, sim.decidedEpoch)
	}
}

// noteBinding counts Bindings of earlier leaders.
func (sim *simulation) noteBinding(epoch int64, err error) {
	switch {
	case epoch < sim.decidedEpoch && err != nil:
		sim.count("a Binding of an earlier epoch is refused after the next leader's first decision")
	case epoch < sim.newestEpoch && err != nil:
		sim.count("a Binding of an earlier epoch is refused during a handover")
	case epoch < sim.newestEpoch:
		sim.count("a Binding of an earlier epoch is committed during a handover")
	}
}

// noteDecision notes the epoch of a placement.
func (sim *simulation) noteDecision(d *placement) {
	if !sim.hasReplicas() {
		return
	}
	epoch := sim.leaderEpoch()
	if d.deposed = epoch < sim.decidedEpoch; d.deposed {
		sim.count("a leader places a pod although its successor has placed one")
	}
	if epoch > sim.decidedEpoch {
		sim.decidedEpoch = epoch
		sim.logf("the first decision of epoch %d", epoch)
		if epoch > 0 {
			sim.count("a new leader's first decision")
		}
	}
}

// isDeposed says whether a later leader than that of the replica has placed a pod.
func (sim *simulation) isDeposed() bool {
	return sim.hasReplicas() && sim.leaderEpoch() < sim.decidedEpoch
}

// noteElection counts in which situations a leader begins.
func (sim *simulation) noteElection() {
	sim.count(leaderElected)
	for _, r := range sim.replicas {
		switch {
		case r == sim.replica || r.dead || !r.election.leads:
		case r.stopped:
			sim.count("a leader is elected while its predecessor stands still")
		case r.cutOff:
			sim.count("a leader is elected while its predecessor is cut off")
		default:
			sim.count("a leader is elected while its predecessor runs")
		}
	}
}
