package cache

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Assumed returns the node that a pod is assumed on, false when none is.
func (c *Cache) AssumedNode(uid types.UID) (node string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.podStates[uid]
	if !ok || !p.assumed {
		return "", false
	}
	return p.info.NodeName(), true
}

// Placed says whether a pod has a node, assumed or confirmed.
func (c *Cache) IsAssigned(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.podStates[uid]
	return ok
}

// Pod returns the newest version of a pod that has a node, assumed or
// confirmed; nil when it has none.
func (c *Cache) Pod(uid types.UID) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.podStates[uid]; ok {
		return p.info.GetPod()
	}
	return nil
}

// Sizes says how much the cache holds, for metrics and for tests of leaks.
func (c *Cache) Sizes() (pods, assumed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.podStates {
		if p.assumed {
			assumed++
		}
	}
	return len(c.podStates), assumed
}
