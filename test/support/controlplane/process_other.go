//go:build unix && !linux

package controlplane

import "syscall"

// childAttributes leaves a child in the parent's process group, unless it is to outlive the
// parent: elsewhere than on Linux nothing else ends the children of an interrupted parent.
func childAttributes(outlive bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: outlive}
}
