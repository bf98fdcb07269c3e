package extender

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Bind asks the extender to bind a pod. An error does not say that it has not.
func (c *Client) Bind(binding *v1.Binding) error {
	if !c.IsBinder() {
		return errors.New("the extender has no verb to bind")
	}
	var result extenderv1.ExtenderBindingResult
	if err := c.call("bind", c.config.Bind, &extenderv1.ExtenderBindingArgs{
		PodName: binding.Name, PodNamespace: binding.Namespace, PodUID: binding.UID, Node: binding.Target.Name,
	}, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return c.answerError("bind", Failed, sanitizeMessage(result.Error))
	}
	return nil
}
