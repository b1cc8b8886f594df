package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// refusal is why a file or directory is not trusted: a value of the label reason.
type refusal string

// The reasons of refusals (docs/agent.md).
const (
	refusedSymlink     refusal = "symlink"
	refusedNotRegular  refusal = "not_regular"
	refusedOwner       refusal = "owner"
	refusedWritable    refusal = "writable"
	refusedName        refusal = "name"
	refusedMount       refusal = "mount"
	refusedNotSegment  refusal = "not_segment"
	refusedVersion     refusal = "version"
	refusedTruncated   refusal = "truncated"
	refusedCorrupt     refusal = "corrupt"
	refusedImplausible refusal = "implausible"
	refusedLimit       refusal = "limit"
)

// refusals lists them, so that each is shown from the start: an increase from
// nothing to one would not be seen.
var refusals = []refusal{
	refusedSymlink, refusedNotRegular, refusedOwner, refusedWritable, refusedName, refusedMount, refusedNotSegment,
	refusedVersion, refusedTruncated, refusedCorrupt, refusedImplausible, refusedLimit,
}

func (r refusal) Error() string { return "refused: " + string(r) }

// resolve is how names given by others are followed: no symbolic link, no other
// file system, nothing above.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openBelow opens a name directly below a directory; across is whether it may be
// a mount point.
func openBelow(dir *os.File, name string, flags int, across bool) (*os.File, error) {
	if name == "" || name == ".." || strings.Contains(name, "/") {
		return nil, refusedName
	}
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve}
	if across {
		how.Resolve &^= unix.RESOLVE_NO_XDEV
	}
	fd, err := unix.Openat2(int(dir.Fd()), name, &how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Before Linux 5.6, or forbidden: a name without a slash leads nowhere else.
		fd, err = unix.Openat(int(dir.Fd()), name, flags, 0)
	}
	switch {
	case errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) && isLink(dir, name):
		return nil, refusedSymlink
	case errors.Is(err, unix.EXDEV):
		return nil, refusedMount
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), dir.Name()+"/"+name), nil
}

func isLink(dir *os.File, name string) bool {
	var info unix.Stat_t
	return unix.Fstatat(int(dir.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW) == nil && info.Mode&unix.S_IFMT == unix.S_IFLNK
}

// openDirectory opens a directory below another one; it must belong to the
// user, and nobody else may write it.
func openDirectory(dir *os.File, name string, uid uint32) (*os.File, error) {
	f, err := openBelow(dir, name, unix.O_DIRECTORY, false)
	if err != nil {
		return nil, err
	}
	if err := checkDirectory(f, uid); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkDirectory(f *os.File, uid uint32) error {
	info, err := stat(f)
	switch {
	case err != nil:
		return err
	case info.Uid != uid:
		return refusedOwner
	case info.Mode&0o022 != 0:
		return refusedWritable
	}
	return nil
}

// openSegment opens a regular file of the user, and nothing else: a device or a
// pipe may do something when it is opened, so the name is looked at before.
func openSegment(dir *os.File, name string, uid uint32) (*os.File, error) {
	var info unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, &os.PathError{Op: "stat", Path: dir.Name() + "/" + name, Err: err}
	}
	if err := checkSegment(&info, uid); err != nil {
		return nil, err
	}
	f, err := openBelow(dir, name, 0, false)
	if err != nil {
		return nil, err
	}
	opened, err := stat(f)
	if err == nil {
		err = checkSegment(opened, uid)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkSegment(info *unix.Stat_t, uid uint32) error {
	switch {
	case info.Mode&unix.S_IFMT == unix.S_IFLNK:
		return refusedSymlink
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return refusedNotRegular
	case info.Uid != uid:
		return refusedOwner
	}
	return nil
}

func stat(f *os.File) (*unix.Stat_t, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &info); err != nil {
		return nil, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return &info, nil
}

// namesMost bounds how many names of one directory are looked at.
const namesMost = 65536

// names lists a directory.
func names(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, err
	}
	list, err := dir.Readdirnames(namesMost)
	if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) { // empty, or removed
		err = nil
	}
	return list, err
}
