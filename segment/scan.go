package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileSuffix ends the name of a segment in its job directory.
const FileSuffix = ".seg"

// Found is one segment below a base directory, live or dead.
type Found struct {
	Path, Job string // Job is the name of its directory
	Header    RawHeader
	Alive     bool
	Err       error // why the header could not be read, nil if it could
}

// Job is the segments of one job directory.
type Job struct {
	Path, Name string
	Segments   []Found
}

// ByJob puts found segments together by job, in the order in which they come.
func ByJob(found []Found) []Job {
	var jobs []Job
	index := map[string]int{}
	for i := range found {
		dir := filepath.Dir(found[i].Path)
		at, ok := index[dir]
		if !ok {
			at = len(jobs)
			index[dir] = at
			jobs = append(jobs, Job{Path: dir, Name: found[i].Job})
		}
		jobs[at].Segments = append(jobs[at].Segments, found[i])
	}
	return jobs
}

// BaseDirs is where segments of this user may lie, in the order in which the
// shim tries: MPITRACE_SEGMENT_DIR alone if set, else shared memory, then the
// directory for temporary files.
func BaseDirs() []string {
	if dir := os.Getenv("MPITRACE_SEGMENT_DIR"); dir != "" {
		return []string{dir}
	}
	name := "mpitrace-" + strconv.Itoa(os.Getuid())
	return []string{filepath.Join("/dev/shm", name), filepath.Join(os.TempDir(), name)}
}

// Scan lists all segments of all jobs below a base directory, by path. A base
// directory that does not exist has none. One that is a symbolic link, or
// belongs to another user, or may be written by others, is refused; root may
// look into anybody's.
func Scan(base string) ([]Found, error) {
	var info unix.Stat_t
	if err := unix.Lstat(base, &info); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, &os.PathError{Op: "stat", Path: base, Err: err}
	}
	switch uid := uint32(os.Geteuid()); {
	case info.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, fmt.Errorf("%s: is not a directory", base)
	case uid != 0 && info.Uid != uid:
		return nil, fmt.Errorf("%s: belongs to user %d, not to you (%d)", base, info.Uid, uid)
	case info.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s: may be written by others (mode %#o): chmod go-w it, or choose another with MPITRACE_SEGMENT_DIR", base, info.Mode&0o777)
	}
	jobs, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, job := range jobs {
		if job.IsDir() {
			inJob, err := scanJob(filepath.Join(base, job.Name()))
			if err != nil {
				inJob = []Found{{Path: filepath.Join(base, job.Name()), Job: job.Name(), Err: err}}
			}
			found = append(found, inJob...)
		}
	}
	return found, nil
}

// scanJob lists the segments in one job directory.
func scanJob(dir string) ([]Found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), FileSuffix) {
			continue
		}
		f := Found{Path: filepath.Join(dir, entry.Name()), Job: filepath.Base(dir)}
		f.Header, f.Err = readHeader(f.Path)
		f.Alive = f.Err == nil && Alive(&f.Header)
		found = append(found, f)
	}
	return found, nil
}

// readHeader reads the first page of a segment.
func readHeader(path string) (RawHeader, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return RawHeader{}, err
	}
	defer f.Close()
	return headerOf(path, f)
}

// headerOf is readHeader of an open file.
func headerOf(path string, f io.ReaderAt) (RawHeader, error) {
	page := make([]byte, unsafe.Sizeof(RawHeader{}))
	n, err := f.ReadAt(page, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return RawHeader{}, err
	}
	return parseHeader(path, page[:n])
}

// Alive tells whether the process that owns a segment exists now: same boot,
// same pid namespace, and the pid has the same start time. A process of
// another machine or container is never alive to us.
func Alive(h *RawHeader) bool {
	if Text(h.BootID[:]) != bootID() || h.PIDNamespace != pidNamespace() {
		return false
	}
	start, ok := startTime(h.PID)
	return ok && start == h.PIDStart
}

// Foreign tells whether the process that owns a segment belongs to this boot
// but to another pid namespace, so that Alive cannot tell whether it lives.
func Foreign(h *RawHeader) bool {
	return Text(h.BootID[:]) == bootID() && h.PIDNamespace != pidNamespace()
}

// AliveByName tells whether the process that a segment is named after,
// PID-START.seg or PID-START.N.seg, exists now: for segments whose header cannot be read.
func AliveByName(path string) bool {
	pid, started, ok := strings.Cut(strings.TrimSuffix(filepath.Base(path), FileSuffix), "-")
	started, _, _ = strings.Cut(started, ".") // what follows tells images of the process apart
	id, bad := strconv.ParseUint(pid, 10, 32)
	if !ok || bad != nil {
		return false
	}
	start, ok := startTime(uint32(id))
	return ok && strconv.FormatUint(start, 10) == started
}

// bootID does not change while this process lives, nor does its pid namespace.
var bootID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(id))
})

var pidNamespace = sync.OnceValue(func() uint64 {
	var info unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &info) != nil {
		return 0
	}
	return info.Ino
})

// startTime is field 22 of /proc/PID/stat; false if there is no such process
// or only its zombie.
func startTime(pid uint32) (uint64, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field, the command, may hold blanks and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	return start, err == nil
}
