package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/segment"
)

// Find turns what the user named into the path of a result. name may be a
// path, or the id of a job that lies in one of the base directories of
// segments; empty stands for the newest result in dir or, failing that, the
// newest job in shared memory. live asks for jobs in shared memory only. said
// is one line on what was chosen, empty if the user named it.
func Find(name, dir string, bases []string, live bool) (path, said string, err error) {
	if name != "" {
		return findNamed(name, bases, live)
	}
	if !live {
		if path, at := newestResult(dir); path != "" {
			return path, fmt.Sprintf("%s, the newest result here (%s)", path, ago(at)), nil
		}
	}
	path, at, alive, err := newestJob(bases)
	if path == "" && err != nil {
		return "", "", fmt.Errorf("no job could be found in shared memory: %w", err)
	}
	if path == "" {
		where := "no result (mpitrace-*/ or *" + segment.NodeFileSuffix + ") in this directory and "
		if live {
			where = ""
		}
		return "", "", fmt.Errorf("%sno job in shared memory (%s): run a program with mpitrace run first, or name a result", where, strings.Join(bases, ", "))
	}
	if live && !alive {
		return path, fmt.Sprintf("job %s in shared memory: no process of it is alive any more (%s)", filepath.Base(path), ago(at)), nil
	}
	kind := "which is dead"
	if alive {
		kind = "which is running"
	}
	return path, fmt.Sprintf("job %s in shared memory, %s (%s)", filepath.Base(path), kind, ago(at)), nil
}

// findNamed takes what the user named for a path or, failing that, for the id of
// a job in shared memory; live for the latter only, or for the path of one.
func findNamed(name string, bases []string, live bool) (path, said string, err error) {
	_, err = os.Stat(name)
	found := !errors.Is(err, fs.ErrNotExist)
	if found && (!live || hasSegments(name)) {
		return name, "", err
	}
	if name == filepath.Base(name) && name != "." && name != ".." {
		for _, base := range bases {
			path := filepath.Join(base, name)
			if _, err := os.Stat(path); err == nil {
				return path, "job " + name + " in shared memory", nil
			}
		}
	}
	if found {
		return "", "", fmt.Errorf("%s is no job in shared memory (%s): leave out --live to report on it", name, strings.Join(bases, ", "))
	}
	return "", "", fmt.Errorf("%s: neither a file or directory nor a job in %s", name, strings.Join(bases, ", "))
}

// hasSegments tells whether a directory is that of a job in shared memory.
func hasSegments(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasSuffix(e.Name(), segment.FileSuffix)
	})
}

// newestResult is the result directory or packed result in dir that was
// changed last.
func newestResult(dir string) (path string, at time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", at
	}
	for _, entry := range entries {
		full := filepath.Join(dir, entry.Name())
		isResult := strings.HasSuffix(entry.Name(), segment.NodeFileSuffix)
		if entry.IsDir() {
			files, err := filepath.Glob(filepath.Join(escapeGlob(full), "*"+segment.NodeFileSuffix))
			isResult = err == nil && len(files) > 0
		}
		info, err := entry.Info()
		if !isResult || err != nil {
			continue
		}
		if path == "" || info.ModTime().After(at) {
			path, at = full, info.ModTime()
		}
	}
	return path, at
}

// escapeGlob quotes what Glob would take for a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// newestJob is the directory of the newest job in shared memory, living ones
// first. err is what could not be looked through; a job may be found all the same.
func newestJob(bases []string) (path string, at time.Time, alive bool, err error) {
	type job struct {
		path        string
		at          int64
		alive, read bool
	}
	var jobs []job
	for _, base := range bases {
		found, problem := segment.Scan(base)
		err = cmp.Or(err, problem)
		for _, in := range segment.ByJob(found) {
			j := job{path: in.Path}
			for i := range in.Segments {
				f := &in.Segments[i]
				if f.Err != nil {
					err = cmp.Or(err, f.Err)
					continue
				}
				j.at, j.alive, j.read = max(j.at, int64(f.Header.FirstRealtimeNS)), j.alive || f.Alive, true
			}
			if j.read {
				jobs = append(jobs, j)
			}
		}
	}
	if len(jobs) == 0 {
		return "", at, false, err
	}
	best := slices.MaxFunc(jobs, func(a, b job) int {
		switch {
		case a.alive && !b.alive:
			return 1
		case b.alive && !a.alive:
			return -1
		}
		return cmp.Compare(a.at, b.at)
	})
	return best.path, time.Unix(0, best.at), best.alive, err
}

// ago says how long ago a moment was.
func ago(at time.Time) string {
	age := time.Since(at)
	if age < time.Second {
		return "just now"
	}
	return duration(uint64(age)) + " ago"
}
