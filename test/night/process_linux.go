package main

import "syscall"

// ownGroup puts a command into a process group of its own, which can be ended as one. The kernel asks
// it to end when this process is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
