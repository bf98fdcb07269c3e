//go:build unix && !linux

package main

import "syscall"

// ownGroup puts a command into a process group of its own, which can be ended as one.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
