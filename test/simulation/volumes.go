package simulation

import (
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagegroup "k8s.io/client-go/informers/storage"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/test/support/fixture"
)

// In a history of volumes most pods use PersistentVolumeClaims, which VolumeBinding,
// VolumeRestrictions, VolumeZone and NodeVolumeLimits look at. volume_controllers.go has the
// controllers that bind, provision and delete, volume_client.go what Berth writes, and
// volumes_check.go the invariants.

// volumeKinds are the kinds of objects about volumes.
var volumeKinds = []furtherKind{
	{"persistentvolumes", &v1.PersistentVolume{}},
	{"persistentvolumeclaims", &v1.PersistentVolumeClaim{}},
	{"storageclasses", &storagev1.StorageClass{}},
	{"csinodes", &storagev1.CSINode{}},
	{"csidrivers", &storagev1.CSIDriver{}},
	{"csistoragecapacities", &storagev1.CSIStorageCapacity{}},
	{"volumeattachments", &storagev1.VolumeAttachment{}},
}

// The storage classes. The volumes of localClass are made by an administrator.
const (
	localClass     = "local"     // WaitForFirstConsumer, no provisioner
	sharedClass    = "shared"    // WaitForFirstConsumer
	immediateClass = "immediate" // Immediate
)

const driverName = "csi.example.com"

// volumes is the state of a history's volumes.
type volumes struct {
	// on says that this is a history of volumes.
	on bool
	// publishesCapacity says that the driver publishes its storage capacity.
	publishesCapacity bool
	// provisionAt is when a slow provisioner begins, by the UID of the claim.
	provisionAt map[types.UID]time.Time
	// known are the claims of pods that Berth decides about, by the UID of the pod.
	known map[types.UID]knownClaims
}

// drawVolumes makes this a history of volumes.
func (sim *simulation) drawVolumes() {
	random := sim.random
	sim.volumes = volumes{
		on: true, publishesCapacity: random.IntN(3) == 0,
		provisionAt: map[types.UID]time.Time{}, known: map[types.UID]knownClaims{},
	}
	sim.controllerWeight = 1 + random.IntN(8)
	for _, verb := range []string{patchVolume, patchClaim} {
		if random.IntN(2) == 0 {
			sim.settings.requestFaults[verb] = random.Float64() * 0.6
		}
		if random.IntN(3) == 0 {
			sim.settings.frequentOutcomes[verb] = outcomes[random.IntN(len(outcomes))]
		}
	}
	sim.settings.addKinds(random, volumeActions)
}

// addKinds adds kinds of actions, each with its weight or without.
func (s *settings) addKinds(random *rand.Rand, kinds []actionKind) {
	s.kinds = append(s.kinds[:len(s.kinds):len(s.kinds)], kinds...)
	for _, kind := range kinds {
		weight := kind.weight
		if !kind.always && random.IntN(3) == 0 {
			weight = 0
		}
		s.actionWeights = append(s.actionWeights, weight)
	}
}

// hasVolumes says whether this is a history of volumes.
func (sim *simulation) hasVolumes() bool { return sim.volumes.on }

// storage are the kinds of storage objects that the API server serves.
func (sim *simulation) storage() eventhandlers.Storage {
	if sim.hasVolumes() {
		return eventhandlers.AllStorage()
	}
	return eventhandlers.Storage{}
}

// createVolumes creates the classes, the driver, and some volumes and claims.
func (sim *simulation) createVolumes() {
	random := sim.random
	for _, class := range storageClasses() {
		sim.server.put(class)
	}
	if sim.volumes.publishesCapacity || random.IntN(2) == 0 {
		sim.server.put(&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driverName},
			Spec:       storagev1.CSIDriverSpec{StorageCapacity: &sim.volumes.publishesCapacity},
		})
	}
	for range 3 {
		changeCapacity(sim, random)
		changeCSINode(sim, random)
	}
	for range 1 + random.IntN(4) {
		addVolume(sim, random)
		createClaim(sim, random)
	}
}

func storageClasses() []*storagev1.StorageClass {
	return []*storagev1.StorageClass{
		fixture.StorageClass(localClass, ""), fixture.StorageClass(sharedClass, driverName),
		fixture.ImmediateStorageClass(immediateClass, driverName),
	}
}

// volumeActions are what users and administrators do to objects about volumes.
var volumeActions = []actionKind{
	{"a claim is created", 6, true, createClaim},
	{"a claim is deleted", 3, false, removeClaim},
	{"a claim is deleted and made again", 3, false, replaceClaim},
	{"a volume is added", 5, true, addVolume},
	{"a volume is deleted", 2, false, removeVolume},
	{"a CSINode changes", 2, false, changeCSINode},
	{"the storage capacity changes", 2, false, changeCapacity},
	{"a storage class is deleted or made again", 1, false, toggleClass},
}

// claimNames is how many names of claims there are.
const claimNames = 6

func createClaim(sim *simulation, random *rand.Rand) bool {
	name := "c" + itoa(random.IntN(claimNames))
	if find[*v1.PersistentVolumeClaim](sim.server, "shop/"+name) != nil {
		return false
	}
	sim.addClaim(name, nil, random)
	return true
}

// addClaim creates a claim, which owner controls where it is not nil.
func (sim *simulation) addClaim(name string, owner *v1.Pod, random *rand.Rand) {
	class := []string{localClass, localClass, sharedClass, sharedClass, immediateClass}[random.IntN(5)]
	claim := fixture.Claim("shop/"+name, class).Requests(itoa(1+random.IntN(2)) + "Gi").Obj()
	claim.UID = types.UID("c" + itoa(sim.server.version))
	if random.IntN(4) == 0 {
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1.SchemeGroupVersion.WithKind("Pod"))}
	}
	sim.server.put(claim)
	sim.logf("outside: claim %s of class %s, %s, %v", describe(claim), class, claim.Spec.Resources.Requests.Storage(), claim.Spec.AccessModes)
}

// addClaims lets a new pod use claims, some of which do not exist yet.
func (sim *simulation) addClaims(pod *fixture.PodBuilder, random *rand.Rand) {
	first := random.IntN(claimNames)
	for i := range []int{0, 1, 1, 1, 1, 2}[random.IntN(6)] {
		name := "c" + itoa((first+i)%claimNames)
		if random.IntN(3) > 0 && find[*v1.PersistentVolumeClaim](sim.server, "shop/"+name) == nil {
			sim.addClaim(name, nil, random)
		}
		pod.Claim(name)
	}
	if random.IntN(8) == 0 {
		pod.Mutate(func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "own", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
		})
	}
}

func withClaim(sim *simulation, random *rand.Rand, do func(*v1.PersistentVolumeClaim)) bool {
	claim, ok := pick(random, all[*v1.PersistentVolumeClaim](sim.server), func(c *v1.PersistentVolumeClaim) bool { return c.DeletionTimestamp == nil })
	if ok {
		do(claim)
	}
	return ok
}

// removeClaim deletes a claim, which stays as long as a pod on a node uses it.
func removeClaim(sim *simulation, random *rand.Rand) bool {
	return withClaim(sim, random, sim.deleteClaim)
}

func (sim *simulation) deleteClaim(claim *v1.PersistentVolumeClaim) {
	sim.logf("outside: claim %s is deleted", describe(claim))
	if len(sim.usersOnNodes(claim)) > 0 {
		sim.count("a claim is deleted while a pod uses it")
		edit(sim.server, claim, func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: sim.clock.now} })
		return
	}
	sim.server.drop(claim)
}

// replaceClaim deletes a claim that no pod on a node uses, and creates another one of its name.
func replaceClaim(sim *simulation, random *rand.Rand) bool {
	return withClaim(sim, random, func(claim *v1.PersistentVolumeClaim) {
		if len(sim.usersOnNodes(claim)) > 0 || len(claim.OwnerReferences) > 0 {
			return
		}
		sim.logf("outside: claim %s is deleted", describe(claim))
		sim.server.drop(claim)
		sim.addClaim(claim.Name, nil, random)
	})
}

// addVolume adds a volume of localClass or, less often, of sharedClass.
func addVolume(sim *simulation, random *rand.Rand) bool {
	name := "v" + itoa(sim.server.version)
	built := fixture.Volume(name, []string{localClass, localClass, sharedClass}[random.IntN(3)]).Capacity(itoa(1+random.IntN(3)) + "Gi")
	switch random.IntN(6) {
	case 0: // reachable from everywhere
	case 1:
		built.NodeAffinity(v1.LabelHostname, "n"+itoa(random.IntN(sim.settings.nodes+2)))
	case 2:
		built.Mutate(func(p *v1.PersistentVolume) {
			p.Labels = map[string]string{v1.LabelTopologyZone: zones[random.IntN(len(zones))]}
		})
	default:
		built.NodeAffinity(v1.LabelTopologyZone, zones[random.IntN(len(zones))])
	}
	sim.putVolume(built.Mutate(allowEveryMode).Obj())
	return true
}

var zones = []string{"x", "y"}

func allowEveryMode(p *v1.PersistentVolume) {
	p.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOncePod}
}

func (sim *simulation) putVolume(p *v1.PersistentVolume) {
	sim.server.put(p)
	sim.logf("outside: volume %s of class %s, %s, affinity %v, labels %v, for %v", describe(p), p.Spec.StorageClassName, p.Spec.Capacity.Storage(),
		p.Spec.NodeAffinity != nil, p.Labels, p.Spec.ClaimRef != nil)
}

// removeVolume deletes a volume, sometimes one that is bound: its claim is lost.
func removeVolume(sim *simulation, random *rand.Rand) bool {
	p, ok := pick(random, all[*v1.PersistentVolume](sim.server), func(p *v1.PersistentVolume) bool {
		return p.Spec.ClaimRef == nil || random.IntN(4) == 0
	})
	if ok {
		sim.logf("outside: volume %s is deleted", describe(p))
		sim.server.drop(p)
	}
	return ok
}

// changeCSINode changes how many volumes of the driver a node may have, or that nobody knows.
func changeCSINode(sim *simulation, random *rand.Rand) bool {
	name := "n" + itoa(random.IntN(sim.settings.nodes+2))
	old := find[*storagev1.CSINode](sim.server, name)
	if random.IntN(3) == 0 {
		if old != nil {
			sim.logf("outside: CSINode %s is deleted", name)
			sim.server.drop(old)
		}
		return old != nil
	}
	limit := int32(1 + random.IntN(3))
	sim.server.put(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}},
	}})
	sim.logf("outside: CSINode %s allows %d volumes", name, limit)
	return true
}

// changeCapacity changes how much the driver can provision in a zone for a class.
func changeCapacity(sim *simulation, random *rand.Rand) bool {
	if !sim.volumes.publishesCapacity {
		return false
	}
	zone, class := zones[random.IntN(len(zones))], []string{sharedClass, immediateClass}[random.IntN(2)]
	capacity := fixture.Resources("storage", itoa(random.IntN(4))+"Gi")[v1.ResourceStorage]
	sim.server.put(&storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: class + "-" + zone}, StorageClassName: class, Capacity: &capacity,
		NodeTopology: fixture.LabelSelector(v1.LabelTopologyZone, zone),
	})
	sim.logf("outside: in zone %s there is %s for class %s", zone, capacity.String(), class)
	return true
}

// toggleClass deletes a storage class, or creates it again.
func toggleClass(sim *simulation, random *rand.Rand) bool {
	class := storageClasses()[random.IntN(3)]
	if old := find[*storagev1.StorageClass](sim.server, class.Name); old != nil {
		sim.logf("outside: storage class %s is deleted", class.Name)
		sim.server.drop(old)
		return true
	}
	sim.logf("outside: storage class %s is made again", class.Name)
	sim.server.put(class)
	return true
}

// healVolumes makes the storage classes again: pods of a missing class are retried without end.
func (sim *simulation) healVolumes() {
	for _, class := range storageClasses() {
		if find[*storagev1.StorageClass](sim.server, class.Name) == nil {
			sim.server.put(class)
		}
	}
	clear(sim.volumes.provisionAt)
}

// Storage returns informers of the simulation.
func (f *factory) Storage() storagegroup.Interface { return storagegroup.New(f, v1.NamespaceAll, nil) }

// isClaimBound says whether a claim is bound completely.
func isClaimBound(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// claimsForOnePod are the names of the claims of a pod that no other pod may use at the same time.
func (sim *simulation) claimsForOnePod(pod *v1.Pod) (names []string) {
	all, _ := claimNamesOf(pod)
	for _, name := range all {
		if claim := find[*v1.PersistentVolumeClaim](sim.server, pod.Namespace+"/"+name); claim != nil && isForOnePod(claim) {
			names = append(names, name)
		}
	}
	return names
}
