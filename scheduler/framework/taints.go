package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Tolerates reports whether one of tolerations covers taint. The operators Lt
// and Gt cover nothing, as the gate TaintTolerationComparisonOperators is off
// in 1.37.
func Tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}

// UntoleratedTaint returns the first of taints that keeps a pod with
// tolerations off a node (NoSchedule or NoExecute), or nil.
func UntoleratedTaint(taints []v1.Taint, tolerations []v1.Toleration) *v1.Taint {
	for i := range taints {
		taint := &taints[i]
		repels := taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
		if repels && !Tolerates(tolerations, taint) {
			return taint
		}
	}
	return nil
}
