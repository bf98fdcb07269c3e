package controlplane

import "syscall"

// childAttributes puts a child into a process group of its own, so that an interrupt at the
// terminal reaches the parent alone, which then stops its children in order. The kernel kills
// the children when the parent is killed.
func childAttributes(outlive bool) *syscall.SysProcAttr {
	if outlive {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
