package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
)

// TestExport: status and messages of mpitrace export.
func TestExport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "result")
	if err := (synth.Job{ID: "job", Ranks: 2}).WriteTraced(dir, 60); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"export", dir}, statusUsage, "say with --format what to write: perfetto, csv, parquet, otf2"},
		{[]string{"export", "--format", "xml", dir}, statusUsage, "choose one of perfetto, csv, parquet, otf2"},
		{[]string{"export", "--format", "perfetto", dir}, 0, "result.perfetto-trace: 480 calls, 120 messages"},
		{[]string{"export", "--format", "perfetto", dir}, statusUsage, "result.perfetto-trace exists already: remove it, choose another name with -o, or replace it with --force"},
		{[]string{"export", "--format", "perfetto", "--force", dir}, 0, "480 calls"},
		{[]string{"export", "--format", "csv", "nothing"}, statusUsage, "nothing"},
	} {
		var out, errs bytes.Buffer
		if status := execute(test.args, &out, &errs); status != test.status || !strings.Contains(errs.String(), test.want) || out.Len() > 0 {
			t.Errorf("%q: status %d, %q, %q; want %d, %q", test.args, status, out.String(), errs.String(), test.status, test.want)
		}
	}
}
