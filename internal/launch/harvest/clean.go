package harvest

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/mpitrace/mpitrace/segment"
)

// Cleaning is what Clean is to remove.
type Cleaning struct {
	Bases   []string // base directories; segment.BaseDirs if nil
	Job     string   // only this job, all if empty
	AllJobs bool     // also the dead of jobs that have living processes here
	DryRun  bool     // count, but remove nothing
}

// Cleaned is what Clean removed.
type Cleaned struct {
	Segments int
	Bytes    int64
	Kept     int // segments left: living processes, and the dead of their jobs
}

// Clean removes the segments of dead processes. What they hold is lost. The
// error names what could not be done; the rest is done.
func Clean(c Cleaning) (Cleaned, error) {
	if c.Bases == nil {
		c.Bases = segment.BaseDirs()
	}
	var out Cleaned
	jobs, err := scan(c.Bases, c.Job)
	problems := []error{err}
	for _, j := range jobs {
		gone := j.in(dead)
		if !c.AllJobs && !j.idle() {
			gone = nil
		}
		out.Kept += len(j.segments) - len(gone)
		for _, f := range gone {
			if info, err := os.Lstat(f.Path); err == nil {
				out.Segments++
				out.Bytes += info.Size()
			}
		}
		if !c.DryRun && len(gone) > 0 {
			problems = append(problems, j.remove(gone))
		}
	}
	if !c.DryRun && c.Job == "" {
		problems = append(problems, removeEmptyJobs(c.Bases))
	}
	return out, errors.Join(problems...)
}

// emptyAge is how old a job directory without segments must be: a younger one
// may be of a job that is just starting.
const emptyAge = time.Minute

// removeEmptyJobs removes job directories that never got a segment, or whose
// last process was killed between its segment and its directory.
func removeEmptyJobs(bases []string) error {
	var problems []error
	for _, base := range bases {
		if info, err := os.Lstat(base); err != nil || !info.IsDir() {
			continue
		}
		entries, err := os.ReadDir(base)
		problems = append(problems, err)
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && info.IsDir() && time.Since(info.ModTime()) > emptyAge {
				removeEmptyJob(filepath.Join(base, entry.Name()))
			}
		}
	}
	return errors.Join(problems...)
}
