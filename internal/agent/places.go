package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

// place is where base directories may be: a parent directory and the name or
// pattern of what lies in it.
type place struct {
	parent, pattern string
	given           bool // named in full by who started the agent: trusted to be what is meant
}

// placesOf turns --segment-dir into places; without it, where the library puts
// its segments: as an ordinary user the own base directories, as root those of
// all users.
func placesOf(dirs []string, uid int) ([]place, error) {
	if len(dirs) == 0 && (uid != 0 || os.Getenv("MPITRACE_SEGMENT_DIR") != "") {
		dirs = segment.BaseDirs()
	} else if len(dirs) == 0 {
		dirs = []string{"/dev/shm/mpitrace-*", "/tmp/mpitrace-*"}
		if tmp := filepath.Clean(os.TempDir()); tmp != "/tmp" {
			dirs = append(dirs, filepath.Join(tmp, "mpitrace-*"))
		}
	}
	var out []place
	for _, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("--segment-dir %s: %w", dir, err)
		}
		parent, pattern := filepath.Split(path)
		if strings.ContainsAny(parent, "*?[") {
			return nil, fmt.Errorf("--segment-dir %s: a pattern is possible in the last element only", dir)
		}
		if _, err := filepath.Match(pattern, ""); err != nil || pattern == "" {
			return nil, fmt.Errorf("--segment-dir %s: is no pattern of a directory", dir)
		}
		out = append(out, place{parent: filepath.Clean(parent), pattern: pattern, given: !strings.ContainsAny(pattern, "*?[")})
	}
	return out, nil
}

// holds tells whether a name in the parent is a base directory of the place.
func (p *place) holds(name string) bool {
	ok, err := filepath.Match(p.pattern, name)
	return ok && err == nil
}

// open opens a base directory and tells whose it is. The agent of an ordinary
// user takes only own ones. A directory called mpitrace-UID must be that user's.
func (p *place) open(parent *os.File, name string) (*os.File, uint32, error) {
	f, err := openBelow(parent, name, unix.O_DIRECTORY, p.given)
	if err != nil {
		return nil, 0, err
	}
	uid, err := ownerOf(f, name)
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, uid, nil
}

func ownerOf(f *os.File, name string) (uint32, error) {
	info, err := stat(f)
	if err != nil {
		return 0, err
	}
	if self := os.Geteuid(); self != 0 && info.Uid != uint32(self) {
		return 0, refusedOwner
	}
	if number, ok := strings.CutPrefix(name, "mpitrace-"); ok {
		if uid, err := strconv.ParseUint(number, 10, 32); err == nil && uint32(uid) != info.Uid {
			return 0, refusedOwner
		}
	}
	return info.Uid, checkDirectory(f, info.Uid)
}
