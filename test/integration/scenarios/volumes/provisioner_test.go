package volumes

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

// played is who makes volumes in scenarios: nobody but they themselves.
const played = "example.com/played"

// provisioner plays who makes volumes: it looks at each claim that the controller
// leaves to somebody else, again and again until serve has made a volume for it.
func (s scene) provisioner(ctx context.Context, serve func(*v1.PersistentVolumeClaim) *v1.PersistentVolume) (stop func()) {
	served := map[string]bool{}
	return s.beside(ctx, func() {
		var claims v1.PersistentVolumeClaimList
		Expect(admin.List(ctx, &claims, client.InNamespace(s.name))).To(Succeed())
		for i := range claims.Items {
			claim := &claims.Items[i]
			if served[claim.Name] || !metav1.HasAnnotation(claim.ObjectMeta, volume.AnnStorageProvisioner) {
				continue
			}
			if made := serve(claim); made != nil {
				s.create(ctx, made)
				served[claim.Name] = true
			}
		}
	})
}

// beside does something again and again until it is stopped.
func (s scene) beside(ctx context.Context, do func()) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		defer GinkgoRecover()
		_ = wait.PollUntilContextCancel(ctx, pulse, true, func(context.Context) (bool, error) {
			do()
			return false, nil
		})
	})
	return func() { end(); done.Wait() }
}

// whereChosen makes a volume on the node that is chosen for a claim, once there
// is one.
func (s scene) whereChosen(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	node := claim.Annotations[volume.AnnSelectedNode]
	if node == "" {
		return nil
	}
	return s.made(claim, node)
}

// made is a volume for a claim that nobody else's can be, on a node.
func (s scene) made(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return fixture.Volume(s.name+"-made-for-"+claim.Name, *claim.Spec.StorageClassName).
		Capacity(size.String()).NodeAffinity(v1.LabelHostname, node).BoundTo(claim).Obj()
}
