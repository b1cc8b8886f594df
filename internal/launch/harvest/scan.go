package harvest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/segment"
)

// state of the process that wrote a segment.
type state int

const (
	dead    state = iota
	alive         // it exists on this machine
	foreign       // it belongs to another pid namespace of this machine: it may live
)

// jobDir is one job below one base directory.
type jobDir struct {
	path     string
	job      string
	segments []found
}

// found is a segment and what became of its process.
type found struct {
	segment.Found
	state state
}

// in returns the segments in a state.
func (j jobDir) in(s state) []found {
	var out []found
	for _, f := range j.segments {
		if f.state == s {
			out = append(out, f)
		}
	}
	return out
}

// idle tells that no process of the job may live.
func (j jobDir) idle() bool { return len(j.in(dead)) == len(j.segments) }

// scan lists the jobs below the base directories, all or the one named.
func scan(bases []string, job string) ([]jobDir, error) {
	var jobs []jobDir
	var problems []error
	for _, base := range bases {
		list, err := segment.Scan(base)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, in := range segment.ByJob(list) {
			if job != "" && in.Name != job {
				continue
			}
			dir := jobDir{path: in.Path, job: in.Name}
			for _, f := range in.Segments {
				dir.segments = append(dir.segments, found{f, judge(f)})
			}
			jobs = append(jobs, dir)
		}
	}
	return jobs, errors.Join(problems...)
}

// judge tells what became of the process of a segment. Where the header
// cannot be read (it is being written, or damaged) the name of the file says
// whose it is.
func judge(f segment.Found) state {
	switch {
	case f.Alive, f.Err != nil && segment.AliveByName(f.Path):
		return alive
	case f.Err == nil && segment.Foreign(&f.Header):
		return foreign
	}
	return dead
}

// remove unlinks segments, and the job directory when nothing is left in it.
// A segment that is gone already is no error.
func (j jobDir) remove(segments []found) error {
	var problems []error
	for _, f := range segments {
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	removeEmptyJob(j.path)
	return errors.Join(problems...)
}

// controlFile is what the processes of a job share; it goes with the last
// segment.
const controlFile = "control"

// removeEmptyJob removes a job directory without segments. It stays when
// something else lies there or a process is just joining.
func removeEmptyJob(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if entry.Name() != controlFile {
			return false
		}
	}
	_ = os.Remove(filepath.Join(dir, controlFile))
	return os.Remove(dir) == nil
}

// living counts the processes of a job that live on this machine, or may, as far
// as they can be seen.
func living(bases []string, job string) int {
	jobs, _ := scan(bases, job) // who collects says what could not be looked at
	n := 0
	for _, j := range jobs {
		n += len(j.segments) - len(j.in(dead))
	}
	return n
}
