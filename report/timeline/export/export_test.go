package export

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// result writes a traced result.
func result(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "result")
	if err := (synth.Job{ID: "job", Ranks: 4}).WriteTraced(dir, 200); err != nil {
		t.Fatal(err)
	}
	return dir
}

// left is what is in a directory, also what is hidden.
func left(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestOutput: an output comes whole, is not replaced unasked, and nothing else
// is left beside it.
func TestOutput(t *testing.T) {
	dir := result(t)
	for _, format := range []string{"perfetto", "csv", "parquet"} {
		t.Run(format, func(t *testing.T) {
			work := t.TempDir()
			t.Chdir(work)
			o := Options{Format: format}
			done, err := Run(context.Background(), dir, o)
			if err != nil || done.Output != "result"+endings[format] {
				t.Fatalf("%+v, %v", done, err)
			}
			if _, err := Run(context.Background(), dir, o); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a second time: %v", err)
			}
			o.Force = true
			if _, err := Run(context.Background(), dir, o); err != nil {
				t.Errorf("with force: %v", err)
			}
			if files := left(t, work); len(files) != 1 {
				t.Errorf("left are %q", files)
			}
			if lines := done.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "1600 messages") {
				t.Errorf("%q", lines)
			}
		})
	}
}

// TestForce: --force never removes what is no export.
func TestForce(t *testing.T) {
	dir, work := result(t), t.TempDir()
	mine := filepath.Join(work, "mine")
	if err := os.MkdirAll(filepath.Join(mine, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, format := range Formats() {
		for _, out := range []string{mine, dir} {
			if _, err := Run(context.Background(), dir, Options{Format: format, Output: out, Force: true}); err == nil {
				t.Errorf("%s replaced %s", format, out)
			}
		}
	}
	if len(left(t, mine)) != 1 || len(left(t, dir)) < 5 {
		t.Error("something was removed")
	}
}

// TestRefused: each mistake is told before anything is read, or leaves nothing.
func TestRefused(t *testing.T) {
	dir, work := result(t), t.TempDir()
	newer := filepath.Join(work, "newer")
	if err := (synth.Job{ID: "newer", Ranks: 1, Mutate: func(_ int, s *synth.Segment) *synth.Segment { return s }}).Write(newer); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(newer, "*"+segment.NodeFileSuffix))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[8] = segment.VersionMajor + 1
	if err := os.WriteFile(files[0], data, 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(work, "out")
	for _, test := range []struct {
		path, want string
		o          Options
	}{
		{dir, "perfetto, csv, parquet, otf2", Options{Output: out}},
		{dir, "choose one of perfetto, csv, parquet, otf2", Options{Format: "xml", Output: out}},
		{dir, "there is no directory", Options{Format: "csv", Output: filepath.Join(work, "none", "out")}},
		{dir, "no such directory", Options{Format: "csv", Output: out, Tmp: filepath.Join(work, "none")}},
		{newer, "newer mpitrace", Options{Format: "csv", Output: out}},
		{filepath.Join(work, "nothing"), "no such file", Options{Format: "perfetto", Output: out}},
	} {
		if _, err := Run(context.Background(), test.path, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.o, err, test.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, dir, Options{Format: "parquet", Output: out}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if files := left(t, work); len(files) != 1 {
		t.Errorf("left are %q", files)
	}
}

// TestFull: a disk without room is told, and the part that was written goes.
func TestFull(t *testing.T) {
	dir, work := result(t), t.TempDir()
	restore := limitFiles(t, 100_000)
	_, err := Run(context.Background(), dir, Options{Format: "perfetto", Output: filepath.Join(work, "out")})
	restore()
	if err == nil || !strings.Contains(err.Error(), "file too large") {
		t.Errorf("%v", err)
	}
	if files := left(t, work); len(files) != 0 {
		t.Errorf("left are %q", files)
	}
}
