package harvest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/segment"
)

// Options of Collect.
type Options struct {
	Bases  []string                // base directories; segment.BaseDirs if nil
	Job    string                  // only this job, all if empty
	Output func(job string) string // result directory of a job
	All    bool                    // also snapshots of living processes, which keep their segments
	Idle   bool                    // only of jobs no process of which lives here
	Keep   bool                    // leave the segments where they are
	Wait   time.Duration           // how long to wait for living processes to end
	Writer string                  // name and version of the program, for the node file
}

// Summary is what Collect did.
type Summary struct {
	Processes int      // segments written into node files
	Alive     int      // processes that live, or that cannot be judged
	Damaged   int      // segments that cannot be read; they are left
	Unwritten int      // segments of dead processes that could not be written; they are left
	Dirs      []string // result directories written to
}

// Collect writes the segments of dead processes into node files and removes
// them. It waits no longer than until ctx ends. The error names what could not be
// done; the rest is done.
func Collect(ctx context.Context, o Options) (Summary, error) {
	if o.Bases == nil {
		o.Bases = segment.BaseDirs()
	}
	await(ctx, o)
	var s Summary
	jobs, err := scan(o.Bases, o.Job)
	problems := []error{err}
	for _, j := range jobs {
		s.Alive += len(j.segments) - len(j.in(dead))
		if o.Idle && !j.idle() {
			continue
		}
		problems = append(problems, collectJob(o, j, &s))
	}
	if o.Job != "" && !o.Keep {
		// A process killed on its way out may have left only the directory.
		for _, base := range o.Bases {
			removeEmptyJob(filepath.Join(base, o.Job))
		}
	}
	return s, errors.Join(problems...)
}

// await waits until no process lives that has a segment, at most o.Wait.
func await(ctx context.Context, o Options) {
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for living(o.Bases, o.Job) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// collectJob writes one node file for each host name of the job on this
// machine; that is one unless it was renamed.
func collectJob(o Options, j jobDir, s *Summary) error {
	wanted := j.in(dead)
	if o.All {
		wanted = j.segments
	}
	records := map[string][]segment.Record{}
	var done []found
	var problems []error
	for _, f := range wanted {
		data, err := segment.ReadFile(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			s.Damaged++
			problems = append(problems, err)
			continue
		}
		node := data.Header.NodeName()
		records[node] = append(records[node], segment.Record{Kind: segment.RecordSegment, Data: data.Compact()})
		if f.state == dead {
			done = append(done, f)
		}
	}
	for node, list := range records {
		dir := o.Output(j.job)
		if err := write(dir, node, j.job, o.Writer, list); err != nil {
			s.Unwritten += len(done)
			return errors.Join(append(problems, err)...)
		}
		s.Processes += len(list)
		s.Dirs = append(s.Dirs, dir)
	}
	if !o.Keep {
		problems = append(problems, j.remove(done))
	}
	return errors.Join(problems...)
}

// write writes the records under the first free name NODE.K.mtn.
func write(dir, node, job, writer string, records []segment.Record) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("result directory: %w", err)
	}
	node = strings.ReplaceAll(node, "/", "_")
	for k := 0; ; k++ {
		path := filepath.Join(dir, fmt.Sprintf("%s.%d%s", node, k, segment.NodeFileSuffix))
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		err := segment.WriteNodeFile(path, node, job, writer, records)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}
