package faults

import (
	"syscall"
	"unsafe"
)

// limitFiles sets how many files a process may have open, without a change of the limit up to
// which it may be raised again, and returns what the limit was before.
func limitFiles(pid int, files uint64) (before uint64, err error) {
	var old syscall.Rlimit
	if err := prlimit(pid, nil, &old); err != nil {
		return 0, err
	}
	return old.Cur, prlimit(pid, &syscall.Rlimit{Cur: files, Max: old.Max}, nil)
}

func prlimit(pid int, next, old *syscall.Rlimit) error {
	_, _, code := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(next)), uintptr(unsafe.Pointer(old)), 0, 0)
	if code != 0 {
		return code
	}
	return nil
}
