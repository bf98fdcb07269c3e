package fakecluster

// Note adds a line to the calls, so that a test sees in which order they came.
func (c *Cluster) AddCall(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, line)
}
