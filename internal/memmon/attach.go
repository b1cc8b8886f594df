package memmon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// calls are the system calls that can take memory away; bpf/calls.h has their
// numbers. Every kernel has those that are true; the others are missing on some
// architectures, in some configurations, or before some version.
var calls = map[string]bool{
	"mmap": true, "munmap": true, "mremap": true, "brk": true, "madvise": true,
	"clone": true, "openat": true, "truncate": true, "ftruncate": true, "fallocate": true,
	"fork": false, "clone3": false, "shmat": false, "shmdt": false, "open": false, "openat2": false,
	"creat": false, "remap_file_pages": false, "process_madvise": false,
	"mprotect": false, "pkey_mprotect": false,
}

// protecting are those of them that do so before Linux 5.19 only: a page that was made
// read-only is copied when it is written next, although a device has it.
var protecting = []string{"mprotect", "pkey_mprotect"}

// copiesPinned tells whether a kernel of this release does that. One that is not known
// is taken to.
func copiesPinned(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n < 2 || major < 5 || major == 5 && minor < 19
}

// tracefs is where it is mounted by convention.
const tracefs = "/sys/kernel/tracing"

// mountTracefs sees to it that the tracepoints can be found by name.
func mountTracefs() error {
	_, err := os.Stat(tracefs + "/events")
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return &NotSupportedError{tracefs + " may not be read", needPrivilege, err}
	}
	if err := unix.Mount("nodev", tracefs, "tracefs", 0, ""); err != nil {
		return &NotSupportedError{"tracefs is not mounted", "as root: mount -t tracefs nodev " + tracefs, err}
	}
	return nil
}

// attach has the kernel run the program; it does nothing if it runs already.
func (p *program) attach() error {
	if p.code != nil {
		return nil
	}
	err := p.install()
	if err == nil {
		err = p.attachCalls()
	}
	if err == nil {
		err = p.attachRing()
	}
	if err != nil {
		p.detach()
	}
	return err
}

func (p *program) attachCalls() error {
	for call, always := range calls {
		if !p.copiesPinned && slices.Contains(protecting, call) {
			continue
		}
		if err := p.attachCall(call); err != nil && (always || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("memory monitor: tracepoint of %s: %w", call, explain(err))
		}
	}
	return nil
}

// attachCall attaches to the begin and the end of a system call.
func (p *program) attachCall(call string) error {
	for _, at := range []struct{ name, program string }{{"sys_enter_", kernelProgCallBegins}, {"sys_exit_", kernelProgCallEnds}} {
		l, err := link.Tracepoint("syscalls", at.name+call, p.code.Programs[at.program], nil)
		if err != nil {
			return err
		}
		p.attached = append(p.attached, l)
	}
	return nil
}

// ringPrograms see a request of io_uring where it is submitted, where a worker
// gets it, and where it is complete.
var ringPrograms = []string{kernelProgRingSubmits, kernelProgRingQueues, kernelProgRingCompletes}

// attachRing attaches to the requests of io_uring, or, where they cannot be
// seen, to the system call that submits them.
func (p *program) attachRing() error {
	if !p.ring {
		if err := p.attachCall("io_uring_enter"); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil // a kernel without io_uring
	}
	for _, name := range ringPrograms {
		l, err := link.AttachTracing(link.TracingOptions{Program: p.code.Programs[name], AttachType: ebpf.AttachTraceRawTp})
		if err != nil {
			return fmt.Errorf("memory monitor: tracepoint of io_uring: %w", explain(err))
		}
		p.attached = append(p.attached, l)
	}
	return nil
}

// detach ends what attach began, but for processes that hold a copy. The kernel
// takes seconds to let go of so many, which nobody has to wait for.
func (p *program) detach() {
	links, code := p.attached, p.code
	p.attached, p.code = nil, nil
	go func() {
		for _, l := range links {
			_ = l.Close() // closes a descriptor: there is nothing to be done about an error
		}
		if code != nil {
			code.Close()
		}
	}()
}

// holds is how many descriptors wait in a hold, at most.
func holds() int { return 2*len(calls) + len(ringPrograms) }

// watchable is how many processes can be watched at once. What waits in sockets
// counts against the user's limit of open files, but for who has one of two
// capabilities (unix(7), ETOOMANYREFS).
func watchable() (int, unix.Rlimit, error) {
	var limit unix.Rlimit
	var caps [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit), unix.Capget(&header, &caps[0])); err != nil {
		return 0, limit, fmt.Errorf("memory monitor: limits of this process: %w", err)
	}
	if caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE|1<<unix.CAP_SYS_ADMIN) != 0 {
		return mostProcesses, limit, nil
	}
	return int(max(1, min(limit.Cur/uint64(holds()), mostProcesses))), limit, nil
}

// hold returns one descriptor that keeps the program attached until its last
// copy is closed: a socket in which the descriptors of all tracepoints wait to
// be received. A process that receives and closes them harms itself only, since
// each is given a socket of its own; of a link that is attached it can change
// nothing.
func (p *program) hold() (*os.File, error) {
	var fds []int
	for _, l := range p.attached {
		f, ok := l.(interface{ FD() int })
		if !ok {
			return nil, &NotSupportedError{"the kernel has no links of tracepoints", needKernel, fmt.Errorf("a %T", l)}
		}
		fds = append(fds, f.FD())
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("memory monitor: %w", err)
	}
	defer unix.Close(pair[0])
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fds...), nil, 0); err != nil {
		unix.Close(pair[1])
		return nil, fmt.Errorf("memory monitor: keeping %d descriptors: %w", len(fds), err)
	}
	return os.NewFile(uintptr(pair[1]), "hold"), nil
}
