package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/launch"
	"golang.org/x/sys/unix"
)

// shim loads the shim, and each variant of it, into a program without MPI, with all
// symbols bound at once: if that fails, every process of a job would.
func shim(o Options) Check {
	c := Check{Name: "shim", Grade: Fail}
	if o.ShimError != nil {
		c.Found, c.Mend = o.ShimError.Error(), "make, or make install"
		return c
	}
	variants := launch.Variants(o.Shim)
	for _, path := range append([]string{o.Shim}, variants...) {
		cmd := exec.Command("/bin/true")
		cmd.Env = append(os.Environ(), "LD_BIND_NOW=1", "LD_PRELOAD="+path)
		// The dynamic linker goes on without a library that it cannot load, and
		// says so.
		out, err := cmd.CombinedOutput()
		if text := strings.TrimSpace(string(out)); err != nil || text != "" {
			first, _, _ := strings.Cut(text, "\n")
			c.Found = fmt.Sprintf("%s does not load into /bin/true: %s", path, first)
			c.Mend = "build it on this machine, or on one with an older C library"
			return c
		}
	}
	c.Grade, c.Found = OK, o.Shim+" loads"
	if n := len(variants); n > 0 {
		c.Found += fmt.Sprintf(", and %d variants of it", n)
	}
	return c
}

const clockSourceFile = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// clockSource tells which time source the shim will take.
func clockSource() Check {
	c := Check{Name: "time source", Grade: OK}
	kernel := strings.TrimSpace(readText(clockSourceFile))
	if runtime.GOARCH != "amd64" {
		c.Found = "virtual counter of the processor"
		return c
	}
	if kernel == "tsc" && invariantTSC(readText("/proc/cpuinfo")) {
		c.Found = "TSC: invariant, and trusted by the kernel"
		return c
	}
	c.Grade = Warn
	if kernel != "tsc" {
		c.Found = fmt.Sprintf("the kernel uses %s instead of the TSC", orUnknown(kernel))
		c.Mend = "boot with clocksource=tsc tsc=reliable if the TSC of this machine is good; until then each call costs some 20 ns more"
		return c
	}
	c.Found = "the TSC is not invariant"
	c.Mend = "nothing can be done about this processor; each call costs some 20 ns more"
	return c
}

// invariantTSC tells from /proc/cpuinfo that the TSC runs at one rate and
// never stops.
func invariantTSC(cpuinfo string) bool {
	for _, line := range strings.Split(cpuinfo, "\n") {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			words := strings.Fields(flags)
			return slices.Contains(words, "constant_tsc") && slices.Contains(words, "nonstop_tsc")
		}
	}
	return false
}

// clockCost measures the clock of the C library: the smallest step it makes,
// and what reading it takes, which shows whether it needs a system call.
func clockCost() Check {
	c := Check{Name: "clock", Grade: OK}
	const reads = 20000
	start := time.Now()
	var last time.Duration
	smallest := time.Hour
	for range reads {
		now := time.Since(start)
		if now > last {
			smallest = min(smallest, now-last)
		}
		last = now
	}
	cost := last / reads
	c.Found = fmt.Sprintf("smallest step %v, %v a reading", smallest, cost)
	const withoutVDSO = 150 * time.Nanosecond // a system call takes longer, the vDSO less
	if cost > withoutVDSO {
		c.Grade, c.Mend = Warn, "reading the clock takes a system call: see the time source above"
	}
	return c
}

// spaceNeeded is what a node full of ranks may take: 128 segments that have
// grown to their limit of 4 MiB, of which at most a quarter of the free space
// is used.
const (
	segmentBytes = 256 << 10
	spaceNeeded  = 128 * segmentBytes * 4
)

// sharedMemory looks at the first base directory that can be used.
func sharedMemory(bases []string) Check {
	c := Check{Name: "shared memory", Grade: Fail, Found: "no base directory"}
	for i, base := range bases {
		parent := base
		info, err := os.Lstat(base)
		switch {
		case os.IsNotExist(err):
			parent = filepath.Dir(base)
		case err == nil && (!info.IsDir() || info.Mode().Perm() != 0o700):
			c.Found = fmt.Sprintf("%s exists but is not a directory of mode 0700 (%v)", base, info.Mode())
			c.Mend = "remove " + base
			continue
		}
		free, err := freeBytes(parent)
		if err != nil || unix.Access(parent, unix.W_OK) != nil {
			c.Found, c.Mend = fmt.Sprintf("%s cannot be written", parent), "mount a tmpfs on /dev/shm with mode 1777, or set MPITRACE_SEGMENT_DIR"
			continue
		}
		c.Grade, c.Mend = OK, ""
		c.Found = fmt.Sprintf("%s, %d MiB free", base, free>>20)
		if free < spaceNeeded {
			c.Grade = Warn
			c.Mend = fmt.Sprintf("%d MiB are better: enlarge the file system (docker: --shm-size), or set MPITRACE_SEGMENT_DIR", spaceNeeded>>20)
		}
		if i > 0 {
			c.Grade, c.Mend = Warn, "make "+bases[0]+" usable: this place may be a disk"
		}
		return c
	}
	return c
}

func freeBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// limits looks at the resource limits that ranks inherit from this shell.
func limits() []Check {
	return []Check{
		limit("address space", "ulimit -v", unix.RLIMIT_AS, 64<<20,
			"ulimit -v unlimited: the shim takes its segment and at most 1 MiB out of it"),
		limit("locked memory", "ulimit -l", unix.RLIMIT_MEMLOCK, 0, ""),
		limit("file size", "ulimit -f", unix.RLIMIT_FSIZE, 4<<20,
			"ulimit -f unlimited: a segment and the result are files"),
	}
}

// limit checks one limit against the bytes that are needed.
func limit(name, command string, which int, needed uint64, mend string) Check {
	c := Check{Name: name, Grade: OK}
	var r unix.Rlimit
	if err := unix.Getrlimit(which, &r); err != nil {
		return Check{name, Warn, err.Error(), "try " + command}
	}
	c.Found = fmt.Sprintf("%s %d KiB", command, r.Cur>>10)
	if r.Cur == unix.RLIM_INFINITY {
		c.Found = command + " unlimited"
	} else if r.Cur < needed {
		c.Grade, c.Mend = Warn, mend
	}
	return c
}

func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

func orUnknown(text string) string {
	if text == "" {
		return "an unknown clock"
	}
	return text
}
