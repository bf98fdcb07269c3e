package crashes

import (
	"cmp"
	"fmt"
)

// Row says which scenario reaches a fault point. A fault point may have several rows.
type Row struct {
	Point FaultPoint
	// Scenario is the name of the scenario; empty where none can reach the point: Why says
	// why.
	Scenario, Why string
	// Resource is that of the request, where the types do not tell.
	Resource string
	// Marker is a text in the request that tells it apart from those of other points.
	Marker string
	// Without is a text that it does not have; may be empty.
	Without string
}

// label names the write of a row in cells.
func (r Row) label() string {
	text := methods[r.Point.Verb] + " " + r.resource()
	if r.Marker != "" {
		text += fmt.Sprintf(" with %s", r.Marker)
	}
	if r.Without != "" {
		text += fmt.Sprintf(" without %s", r.Without)
	}
	return text
}

func (r Row) resource() string { return cmp.Or(r.Resource, r.Point.Resource) }

// matches reports whether a request is one of the row.
func (r Row) matches(is request) bool {
	return methods[r.Point.Verb] == is.method && r.resource() == is.resource && (r.Marker == "" || is.names(r.Marker)) && (r.Without == "" || !is.names(r.Without))
}

// rowsOf returns the rows of a scenario.
func rowsOf(scenario string) (rows []Row) {
	for _, row := range Rows {
		if row.Scenario == scenario {
			rows = append(rows, row)
		}
	}
	return rows
}

// at returns a fault point.
func at(file, function, verb, resource string) FaultPoint {
	return FaultPoint{File: file, Function: function, Verb: verb, Resource: resource, Index: 1}
}

// second returns the second of two fault points that have all else in common.
func second(p FaultPoint) FaultPoint {
	p.Index = 2
	return p
}

// The fault points with several rows.
var (
	conditions  = at("controllers/status_writer.go", "(*statusWriter).apply", "Apply", "")
	podStatus   = at("scheduler/binding/status_writer.go", "(*statusWriter).send", "Patch", "pods/status")
	fencedPod   = at("scheduler/binding/fence.go", "(*statusWriter).patchFence", "Patch", "pods/status")
	leaseUpdate = at("scheduler/leadership/lock.go", "(trackedLock).Update", "Update", "leases")
	createEvent = at("scheduler/recorder/writer.go", "(*Recorder).send", "Create", "events")
	journalPut  = at("scheduler/journal/write.go", "(*Journal).putContent", "Update", "configmaps")
	bindPod     = at("scheduler/plugins/defaultbinder/defaultbinder.go", "(*Plugin).Bind", "Bind", "pods/binding")
	revisionPut = at("controllers/history/store.go", "(*clusterStore).update", "Update", "controllerrevisions")
)

const (
	profileStatus = "schedulingprofiles/status"
	inConditions  = `"conditions"`
	inCounters    = `"totals"`
)

// Rows has each fault point of the code. In a scenario the first row that matches a request
// names it.
var Rows = []Row{
	{Point: at("controllers/default_profile.go", "(*defaultProfileCreator).createIfNone", "Create", "schedulingprofiles"), Scenario: firstProfile},

	{Point: at("controllers/history/store.go", "(*clusterStore).create", "Create", "controllerrevisions"), Scenario: profileStarts},
	{Point: conditions, Scenario: profileStarts, Resource: profileStatus, Marker: inConditions},
	{Point: conditions, Scenario: profileStarts, Resource: "pluginconfigs/status"},
	{Point: at("controllers/export/export.go", "(*Exporter).write", "Create", "configmaps"), Scenario: profileStarts},
	{Point: revisionPut, Scenario: profileStarts},
	{Point: createEvent, Scenario: profileStarts},

	{Point: at("controllers/export/export.go", "(*Exporter).write", "Apply", "configmaps"), Scenario: swapAccepted},
	{Point: conditions, Scenario: swapAccepted, Resource: profileStatus, Marker: inConditions},
	{Point: bindPod, Scenario: swapAccepted},
	{Point: at("controllers/export/export.go", "(*Exporter).remove", "Delete", "configmaps"), Scenario: rollback},
	{Point: revisionPut, Scenario: rollback},
	{Point: conditions, Scenario: swapRefused, Resource: profileStatus, Marker: inConditions},
	{Point: at("controllers/history/store.go", "(*clusterStore).delete", "Delete", "controllerrevisions"), Scenario: manySwaps},

	{Point: bindPod, Scenario: binds},
	{Point: at("controllers/publisher.go", "(*publisher).write", "Apply", ""), Scenario: binds, Resource: profileStatus, Marker: inCounters},

	{Point: at("scheduler/binding/status.go", "(*statusWriter).writeBindFailure", "Patch", "pods/status"), Scenario: givenUp, Marker: "was given up"},

	{Point: podStatus, Scenario: refusal, Marker: `PodScheduled`},
	{Point: createEvent, Scenario: refusal},
	{Point: at("scheduler/recorder/writer.go", "(*Recorder).send", "Patch", "events"), Scenario: repeats},
	{Point: at("controllers/explainer/client.go", "(*decisionClient).create", "Create", "schedulingdecisions"), Scenario: refusal},
	{Point: at("controllers/explainer/client.go", "(*decisionClient).update", "Patch", "schedulingdecisions"), Scenario: refusal},
	{Point: at("controllers/explainer/client.go", "(*decisionClient).delete", "Delete", "schedulingdecisions"), Scenario: refusal},
	{Point: journalPut, Scenario: refusal},

	{Point: at("scheduler/binding/evict.go", "(*Binding).deleteVictimOnce", "Patch", "pods/status"), Scenario: preemption, Marker: "DisruptionTarget"},
	{Point: at("scheduler/binding/evict.go", "(*Binding).deleteVictimOnce", "Delete", "pods"), Scenario: preemption},
	{Point: podStatus, Scenario: preemption, Marker: "nominatedNodeName"},
	{Point: bindPod, Scenario: preemption},

	{Point: at("scheduler/volumes/hold.go", "(*hold).Write", "Patch", "persistentvolumes"), Scenario: volumes},
	{Point: at("scheduler/volumes/hold.go", "(*hold).Write", "Patch", "persistentvolumeclaims"), Scenario: volumes},
	{Point: bindPod, Scenario: volumes},

	{Point: at("scheduler/devices/bind.go", "(*binding).addFinalizer", "Update", "resourceclaims"), Scenario: devices},
	{Point: at("scheduler/devices/bind.go", "(*binding).write", "UpdateStatus", "resourceclaims/status"), Scenario: devices},
	{Point: at("scheduler/devices/extended.go", "(*Devices).CreateClaim", "Create", "resourceclaims"), Scenario: devices},
	{Point: at("scheduler/devices/extended.go", "(*Devices).SetExtendedResourceClaimStatus", "Patch", "pods/status"), Scenario: devices, Marker: "extendedResourceClaimStatus"},
	{Point: at("scheduler/devices/bind.go", "(*Devices).UnreserveClaim", "Patch", "resourceclaims/status"), Scenario: devicesReturned},
	{Point: at("scheduler/devices/extended.go", "(*Devices).DeleteClaim", "Update", "resourceclaims"), Scenario: devicesReturned},
	{Point: at("scheduler/devices/extended.go", "(*Devices).DeleteClaim", "Delete", "resourceclaims"), Scenario: devicesReturned},
	{Point: at("scheduler/devices/bind.go", "(*binding).removeReservation", "UpdateStatus", "resourceclaims/status"), Scenario: devicesReserved},
	{Point: at("scheduler/devices/deallocate.go", "(*Devices).deallocate", "UpdateStatus", "resourceclaims/status"), Scenario: devicesDeallocated},

	{Point: at("scheduler/group_status.go", "(*groupStatus).patch", "Patch", "podgroups/status"), Scenario: groups},
	{Point: bindPod, Scenario: groups},

	{Point: leaseUpdate, Scenario: leaderEnds, Without: `"holderIdentity":"`},
	{Point: second(leaseUpdate), Scenario: handover},
	{Point: fencedPod, Scenario: handover, Marker: `"lastProbeTime":"`},
	{Point: at("scheduler/devices/fence.go", "(*Devices).fenceClaim", "Update", "resourceclaims"), Scenario: handover},
	{Point: journalPut, Scenario: handover},
	{Point: at("scheduler/leadership/lock.go", "(trackedLock).Create", "Create", "leases"), Scenario: firstLeader},
	{Point: at("scheduler/leadership/lock.go", "(notingLeases).Create", "Create", "leases"), Why: "it is the request of (trackedLock).Create"},
	{Point: at("scheduler/journal/write.go", "(*Journal).putContent", "Create", "configmaps"), Scenario: firstLeader},

	{Point: at("controllers/options.go", "(*Options).setDefaults", "Record", "events"), Why: "the manager gives Options.Recorder"},
}
