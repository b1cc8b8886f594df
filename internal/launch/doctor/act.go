package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runtimeName is the library that a job in act mode loads, beside the shim.
const runtimeName = "libmpishim-rt.so"

const ptraceScope = "/proc/sys/kernel/yama/ptrace_scope"

// acting looks at what only jobs in act mode need: the others run without it, so that
// nothing here fails.
func acting(o Options) []Check {
	checks := []Check{actRuntime(o), actDevices(o)}
	return append(checks, actCopies(readText(ptraceScope), readsItself()))
}

func actRuntime(o Options) Check {
	c := Check{Name: "act mode", Grade: OK, Found: "the shim is missing"}
	if o.ShimError == nil {
		path := filepath.Join(filepath.Dir(o.Shim), runtimeName)
		if _, err := os.Stat(path); err == nil {
			c.Found = path
			return c
		}
		c.Found = path + " is missing: jobs can only be observed"
	}
	c.Grade, c.Mend = Warn, "make install from source: the deb and the rpm do not have it"
	return c
}

// actDevices are what messages could go by, inside the node and beyond.
func actDevices(o Options) Check {
	c := Check{Name: "act devices", Grade: OK}
	devices, err := o.Devices()
	switch {
	case err != nil:
		c.Grade, c.Found, c.Mend = Warn, err.Error(), "make, or install all of the package"
	case len(devices) == 0:
		c.Grade, c.Found, c.Mend = Warn, "none that is up", "mount /proc, which shared memory needs, or bring a network port up"
	default:
		c.Found = strings.Join(devices, ", ")
	}
	return c
}

// actCopies tells whether the kernel copies from one rank to another: refused by what
// says so of any process, or by the scope of Yama (Documentation/admin-guide/LSM/Yama.rst)
// of those that do not descend from each other.
func actCopies(scope string, itself error) Check {
	c := Check{Name: "act copies", Grade: Warn}
	const slower = ": long messages inside the node are copied twice"
	if itself != nil {
		c.Found = fmt.Sprintf("process_vm_readv: %v%s", itself, slower)
		c.Mend = "allow the system call (docker: --cap-add=SYS_PTRACE)"
		return c
	}
	if n, err := strconv.Atoi(strings.TrimSpace(scope)); err == nil && n > 0 && os.Geteuid() != 0 {
		c.Found = fmt.Sprintf("kernel.yama.ptrace_scope is %d%s", n, slower)
		c.Mend = "sysctl kernel.yama.ptrace_scope=0, if the site allows it"
		return c
	}
	c.Grade, c.Found = OK, "one rank may copy from another one's memory"
	return c
}

// word is what readsItself reads: a variable of a package stays where it is.
var word uint64

// readsItself copies a word of this process by the kernel.
func readsItself() error {
	var to [unsafe.Sizeof(word)]byte
	local := []unix.Iovec{{Base: &to[0]}}
	local[0].SetLen(len(to))
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&word)), Len: len(to)}}
	_, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0)
	return err
}
