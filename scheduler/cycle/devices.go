package cycle

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// DeviceRequests returns what the pod's requests for devices find, if the plugin that
// allocates them rejected the pod in fitErr. r.State must be that of the attempt.
func DeviceRequests(ctx context.Context, r Request, fitErr *framework.FitError) (requests []v1alpha1.DeviceRequestCounts) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("%v", panicValue), "Counting devices panicked; none are reported", "pod", klog.KObj(r.Pod))
			requests = nil
		}
	}()
	for _, c := range r.Framework.CountDevices(ctx, r.State, r.Pod, fitErr.Diagnosis.UnschedulablePlugins) {
		requests = append(requests, deviceRequestOf(c))
	}
	return decision.Summarize(requests, func(rest []v1alpha1.DeviceRequestCounts) v1alpha1.DeviceRequestCounts {
		return v1alpha1.DeviceRequestCounts{Request: fmt.Sprintf("%d more requests", len(rest))}
	})
}

func deviceRequestOf(c framework.DeviceCounts) v1alpha1.DeviceRequestCounts {
	request := v1alpha1.DeviceRequestCounts{
		Claim: c.Claim, Request: c.Request, DeviceClassName: c.Class, Count: int32(c.Wanted), Published: int32(c.Published), Free: int32(c.Free),
	}
	if c.Alternative != "" {
		request.Request += "/" + c.Alternative
	}
	for _, s := range c.Selectors {
		source := v1alpha1.DeviceSelectorOfRequest
		if s.OfClass {
			source = v1alpha1.DeviceSelectorOfClass
		}
		request.Selectors = append(request.Selectors, v1alpha1.DeviceSelectorCount{Source: source, Expression: s.Expression, Matching: int32(s.Devices)})
	}
	return request
}
