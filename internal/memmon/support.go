package memmon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// NotSupportedError says that this kernel, or this process on it, cannot watch
// memory, and what would mend that.
type NotSupportedError struct {
	What, Mend string
	Err        error
}

func (e *NotSupportedError) Error() string {
	return fmt.Sprintf("memory monitor: %s: %s (%v)", e.What, e.Mend, e.Err)
}

// Unwrap is the error of the kernel or of the loader.
func (e *NotSupportedError) Unwrap() error { return e.Err }

// What mends most errors.
const (
	needPrivilege = "run as root, or as a service with CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH (packaging/systemd/mpitrace-memmon.service)"
	needKernel    = "Linux 5.15 or newer is needed, with CONFIG_BPF_SYSCALL and CONFIG_FTRACE_SYSCALLS"
)

// explain turns an error of loading or attaching into one that says what to do.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return &NotSupportedError{"no permission to load BPF programs", needPrivilege, err}
	case errors.Is(err, fs.ErrNotExist):
		return &NotSupportedError{"a tracepoint is missing", needKernel, err}
	case errors.Is(err, btf.ErrNotSupported):
		return &NotSupportedError{"the kernel does not describe its types", "it must be built with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)", err}
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS) || errors.As(err, &verifier):
		return &NotSupportedError{"the kernel refuses the program", needKernel, err}
	}
	return fmt.Errorf("memory monitor: %w", err)
}

// pageBytes rounds up to whole pages of this machine.
func pageBytes(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}
