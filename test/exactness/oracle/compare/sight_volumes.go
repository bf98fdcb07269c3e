package compare

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// volume reports whether one of the pod's volumes is such.
func (s *sight) volume(such func(*v1.Volume) bool) bool {
	for i := range s.pod.Spec.Volumes {
		if such(&s.pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func (s *sight) madeForIt() bool {
	return s.volume(func(v *v1.Volume) bool { return v.Ephemeral != nil })
}

func (s *sight) namesDisk() bool {
	return s.volume(func(v *v1.Volume) bool {
		return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
	})
}

// claim reports whether one of the claims that the pod names is there, and such.
func (s *sight) claim(such func(*v1.PersistentVolumeClaim) bool) bool {
	claims := s.others.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(s.pod.Namespace)
	return s.volume(func(v *v1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		claim, err := claims.Get(v.PersistentVolumeClaim.ClaimName)
		return err == nil && such(claim)
	})
}

func (s *sight) bound() bool {
	return s.claim(func(c *v1.PersistentVolumeClaim) bool { return c.Spec.VolumeName != "" })
}

func (s *sight) unbound() bool {
	return s.claim(func(c *v1.PersistentVolumeClaim) bool { return c.Spec.VolumeName == "" })
}

func (s *sight) onePodOnly() bool {
	return s.claim(func(c *v1.PersistentVolumeClaim) bool {
		return slices.Contains(c.Spec.AccessModes, v1.ReadWriteOncePod)
	})
}
