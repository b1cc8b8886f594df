package export

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/report/timeline/otf2"
	"github.com/mpitrace/mpitrace/report/timeline/perfetto"
	"github.com/mpitrace/mpitrace/report/timeline/tables"
	"github.com/mpitrace/mpitrace/segment"
)

// Options of Run.
type Options struct {
	Format     string
	Output     string // file or directory; empty: the name of the result with an ending, in the working directory
	Force      bool   // replace an output that exists
	Tmp        string // directory of temporary files; empty: that of os.TempDir
	Bytes      int    // memory of one sort buffer; 0: 64 MiB
	Version    string // of this program
	Executable string // this program: mpitrace-otf2 is looked for beside it
}

// endings of outputs whose name is not given, by format. That of Perfetto is a
// file, the others are directories.
var endings = map[string]string{"perfetto": ".perfetto-trace", "csv": "-csv", "parquet": "-parquet", "otf2": ".otf2"}

// Formats lists what Options.Format may be.
func Formats() []string { return []string{"perfetto", "csv", "parquet", "otf2"} }

// Check refuses what is wrong before anything is read.
func (o *Options) Check() error {
	known := strings.Join(Formats(), ", ")
	switch {
	case o.Format == "":
		return fmt.Errorf("say with --format what to write: %s", known)
	case !slices.Contains(Formats(), o.Format):
		return fmt.Errorf("--format %s: choose one of %s", o.Format, known)
	}
	if o.Tmp != "" {
		if info, err := os.Stat(o.Tmp); err != nil || !info.IsDir() {
			return fmt.Errorf("--tmp %s: no such directory", o.Tmp)
		}
	}
	return nil
}

// Done is what was written.
type Done struct {
	Output    string
	Summary   *timeline.Summary
	Traced    bool
	Unwritten uint64 // of OTF2: ends of messages that were left out
}

// Run exports a result, until ctx ends. The output appears under its name when it is complete;
// after an error nothing is left of it. An output that exists is refused, with
// a *fs.PathError of fs.ErrExist, unless Force is set.
func Run(ctx context.Context, path string, o Options) (*Done, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	out := o.output(path)
	if err := o.refuse(out, path); err != nil {
		return nil, err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	defer os.RemoveAll(temporary)
	done, product, err := o.write(ctx, path, temporary, filepath.Base(out))
	if err != nil {
		return nil, err
	}
	done.Output = out
	if err := os.Chmod(product, modeOf(o.Format)); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return done, o.rename(product, out, temporary)
}

func modeOf(format string) fs.FileMode {
	if format == "perfetto" {
		return 0o644
	}
	return 0o755
}

// output is where to write.
func (o *Options) output(path string) string {
	if o.Output != "" {
		return filepath.Clean(o.Output)
	}
	name := strings.TrimSuffix(filepath.Base(path), segment.NodeFileSuffix)
	if absolute, err := filepath.Abs(path); err == nil && (name == "." || name == "..") {
		name = filepath.Base(absolute)
	}
	return name + endings[o.Format]
}

// refuse tells what is in the way of an output.
func (o *Options) refuse(out, path string) error {
	info, err := os.Lstat(out)
	if errors.Is(err, fs.ErrNotExist) {
		if parent, err := os.Stat(filepath.Dir(out)); err != nil || !parent.IsDir() {
			return fmt.Errorf("-o %s: there is no directory %s", out, filepath.Dir(out))
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("-o %s: %w", out, err)
	}
	if !o.Force {
		return &fs.PathError{Op: "export", Path: out, Err: fs.ErrExist}
	}
	if here, err := os.Stat(path); err == nil && os.SameFile(here, info) {
		return fmt.Errorf("-o %s: is the result itself", out)
	}
	if info.IsDir() && !o.own(out) {
		return fmt.Errorf("-o %s: is a directory that holds other files than an export: choose another name", out)
	}
	return nil
}

// own tells whether a directory is an export of this format and has nothing
// else in it, so that --force may remove it.
func (o *Options) own(dir string) bool {
	name := strings.TrimSuffix(filepath.Base(dir), ".otf2")
	mine, sign := []string{name, name + ".otf2", name + ".def"}, name+".otf2"
	if o.Format != "otf2" {
		mine, sign = nil, "ranks."+o.Format
		for _, table := range tables.Names() {
			mine = append(mine, table+"."+o.Format)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
		if !slices.Contains(mine, e.Name()) {
			return false
		}
	}
	return slices.Contains(names, sign)
}

// write exports into a directory, and says what in it is the product.
func (o *Options) write(ctx context.Context, path, dir, name string) (*Done, string, error) {
	options := timeline.Options{Bytes: o.Bytes, Dir: o.Tmp}
	done := &Done{}
	run := func(w timeline.Writer) (err error) {
		seen := &watcher{Writer: w}
		done.Summary, err = timeline.Export(ctx, path, seen, options)
		done.Traced = seen.traced
		return err
	}
	product := filepath.Join(dir, name)
	switch o.Format {
	case "perfetto":
		f, err := os.OpenFile(product, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return nil, "", err
		}
		return done, product, errors.Join(run(perfetto.New(f, perfetto.Options{Version: o.Version})), f.Close())
	case "otf2":
		program, err := otf2.Find(o.Executable)
		if err != nil {
			return nil, "", err
		}
		// libotf2 makes the directory.
		w := otf2.New(product, strings.TrimSuffix(name, ".otf2"), program)
		defer w.Close()
		err = run(w)
		done.Unwritten = w.Unwritten
		return done, product, err
	}
	if err := os.Mkdir(product, 0o755); err != nil {
		return nil, "", err
	}
	return done, product, run(tables.New(product, tables.Format(o.Format), o.Version))
}

// watcher notes whether there is a trace.
type watcher struct {
	timeline.Writer
	traced bool
}

func (w *watcher) Begin(j *timeline.Job) error {
	w.traced = j.Traced
	return w.Writer.Begin(j)
}

// rename gives the product its name. What was there before goes only now.
func (o *Options) rename(product, out, temporary string) error {
	if _, err := os.Lstat(out); err == nil {
		if !o.Force {
			return &fs.PathError{Op: "export", Path: out, Err: fs.ErrExist}
		}
		if err := os.Rename(out, filepath.Join(temporary, ".before")); err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
	}
	if err := os.Rename(product, out); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	return nil
}

// Lines is what to tell of an export: problems first, then what was written.
func (d *Done) Lines() []string {
	s := d.Summary
	out := slices.Clone(s.Problems)
	if !d.Traced {
		return append(out, fmt.Sprintf("%s: no trace in this result (run with --trace): %d samples of collective operations and what else there is", d.Output, s.Samples))
	}
	m := &s.Messages
	line := fmt.Sprintf("%s: %d calls, %d messages, %d requests of receives", d.Output, s.Calls, m.Matched, s.Requests)
	if left := s.Unmatched(); left > 0 {
		line += fmt.Sprintf("; %d ends of messages without their other end", left)
	}
	for _, part := range []struct {
		n    uint64
		text string
	}{
		{m.Unaligned, "%d messages between clocks that cannot be compared"},
		{s.Dropped, "%d events were not kept by the ranks"}, {s.Damaged, "%d events have impossible times and were left out"},
		{s.Homeless, "%d events belong to no rank"}, {s.Implied, "%d calls are known by their messages alone"},
		{s.Open, "%d calls were in progress"}, {uint64(s.Gaps), "%d gaps are marked"},
		{d.Unwritten, "%d ends of messages have no event in the archive"},
	} {
		if part.n > 0 {
			line += "; " + fmt.Sprintf(part.text, part.n)
		}
	}
	return append(out, line)
}
