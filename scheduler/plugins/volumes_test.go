package plugins_test

import (
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Volumes are those in the informers. A cluster has one room: an informer takes
// its indexes once.
func (c *fakeHandle) Volumes() framework.Volumes {
	if c.volumes != nil {
		return c.volumes
	}
	room := volumes.New(volumes.Options{Clock: clock.RealClock{}})
	core := c.informers.Core().V1()
	if err := room.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()); err != nil {
		panic(err)
	}
	c.volumes = room
	return room
}
