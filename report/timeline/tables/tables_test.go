package tables_test

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/report/timeline"
	"github.com/mpitrace/mpitrace/report/timeline/tables"
)

// columnFigures is what a column comes to: nulls, and the sum of its numbers
// or of the lengths of its texts.
type columnFigures struct {
	nulls int
	sum   float64
}

// readCSV reads a table with the standard library's reader.
func readCSV(t *testing.T, path string) (names []string, rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if !strings.HasSuffix(string(text), "\r\n") || strings.Count(string(text), "\r\n") != len(all) {
		t.Errorf("%s: lines do not end as RFC 4180 wants", path)
	}
	return all[0], all[1:]
}

// export writes the tables of a result in a format.
func export(t *testing.T, dir string, format tables.Format) (string, *timeline.Summary) {
	t.Helper()
	out := t.TempDir()
	s, err := timeline.Export(context.Background(), dir, tables.New(out, format, "test"), timeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out, s
}

func traced(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j := synth.Job{ID: "tables", Ranks: 4, Sampled: true}
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		if rank == 3 {
			return nil // names of gaps hold no comma, but the table has empty fields
		}
		return s
	}
	if err := j.WriteTraced(dir, 50); err != nil {
		t.Fatal(err)
	}
	return dir
}

// column is the values of a column by name.
func column(t *testing.T, names []string, rows [][]string, name string) []string {
	t.Helper()
	i := slices.Index(names, name)
	if i < 0 {
		t.Fatalf("no column %s in %q", name, names)
	}
	var out []string
	for _, row := range rows {
		out = append(out, row[i])
	}
	return out
}

// TestCSV: a row for each call, message, request and sample; references lead
// somewhere.
func TestCSV(t *testing.T) {
	out, s := export(t, traced(t), tables.CSV)
	want := map[string]uint64{"calls": s.Calls, "messages": s.Messages.Matched, "collectives": s.Samples, "sites": uint64(len(s.Places)), "ranks": 4}
	want["requests"] = s.Requests + s.Messages.Sends // all sends of the solver are nonblocking
	ids := map[string]bool{"": true}
	names, rows := readCSV(t, filepath.Join(out, "sites.csv"))
	for _, id := range column(t, names, rows, "site") {
		ids[id] = true
	}
	for table, n := range want {
		names, rows := readCSV(t, filepath.Join(out, table+".csv"))
		if uint64(len(rows)) != n || n == 0 {
			t.Errorf("%s has %d rows, want %d", table, len(rows), n)
		}
		for i, name := range names {
			if !strings.HasSuffix(name, "site") {
				continue
			}
			for _, row := range rows {
				if !ids[row[i]] {
					t.Fatalf("%s: site %s does not exist", table, row[i])
				}
			}
		}
	}
	names, rows = readCSV(t, filepath.Join(out, "ranks.csv"))
	if rows[3][slices.Index(names, "state")] != "no data" || rows[3][slices.Index(names, "wall_ns")] != "" || rows[3][slices.Index(names, "gaps")] != "no data of rank 3" {
		t.Errorf("the rank without data: %q", rows[3])
	}
	if files, err := os.ReadDir(out); err != nil || len(files) != 6 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestParquet: another implementation reads the same as is in the CSV.
func TestParquet(t *testing.T) {
	for name, dir := range map[string]string{"traced": traced(t), "untraced": untraced(t)} {
		csvDir, _ := export(t, dir, tables.CSV)
		parquetDir, _ := export(t, dir, tables.Parquet)
		files, err := filepath.Glob(filepath.Join(parquetDir, "*.parquet"))
		if err != nil || len(files) < 6 {
			t.Fatalf("%s: %q, %v", name, files, err)
		}
		cmd := exec.Command("go", append([]string{"run", "."}, files...)...)
		cmd.Dir = "../../../test/arrow"
		read, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, err.(*exec.ExitError).Stderr)
		}
		seen := 0
		for _, line := range strings.Split(strings.TrimSpace(string(read)), "\n") {
			f := strings.Split(line, "\t")
			table := strings.TrimSuffix(filepath.Base(f[0]), ".parquet")
			names, rows := readCSV(t, filepath.Join(csvDir, table+".csv"))
			want := figuresOf(column(t, names, rows, f[2]), f[3])
			nulls, _ := strconv.Atoi(f[5])
			sum, _ := strconv.ParseFloat(f[6], 64)
			if f[1] != strconv.Itoa(len(rows)) || nulls > want.nulls || math.Abs(sum-want.sum) > 1e-9*math.Abs(want.sum)+1e-5 {
				t.Errorf("%s %s: %q, the CSV has %d rows, %+v", table, f[2], f, len(rows), want)
			}
			if f[3] == "utf8" && len(rows) > 0 && !strings.Contains(f[4], "DICTIONARY") {
				t.Errorf("%s %s has no dictionary: %s", table, f[2], f[4])
			}
			seen++
		}
		if seen < 60 {
			t.Errorf("only %d columns were compared", seen)
		}
	}
}

// figuresOf is the same of a column of CSV.
func figuresOf(values []string, kind string) (f columnFigures) {
	for _, v := range values {
		if v == "" {
			f.nulls++
		}
		switch n, _ := strconv.ParseFloat(v, 64); {
		case kind == "utf8":
			f.sum += float64(len(v))
		case v == "true":
			f.sum++
		default:
			f.sum += n
		}
	}
	return f
}

func untraced(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := (synth.Job{ID: "untraced", Ranks: 4, Sampled: true}).Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReportTables: of a result without a trace, the tables of the report are
// those that mpitrace report --csv writes.
func TestReportTables(t *testing.T) {
	dir := untraced(t)
	out, _ := export(t, dir, tables.CSV)
	r, err := report.Load(dir, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range report.Views() {
		var want strings.Builder
		if err := r.WriteCSV(&want, report.View{By: by}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(out, "report-"+by+".csv"))
		if err != nil || strings.ReplaceAll(string(got), "\r\n", "\n") != want.String() {
			t.Errorf("%s: %v\n%s\nwant\n%s", by, err, got, want.String())
		}
	}
	if _, err := os.Stat(filepath.Join(out, "calls.csv")); err == nil {
		t.Error("calls without a trace")
	}
}

// TestExists: a file that is there is never overwritten.
func TestExists(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "collectives.csv"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := timeline.Export(context.Background(), untraced(t), tables.New(out, tables.CSV, ""), timeline.Options{}); err == nil {
		t.Error("a file was overwritten")
	}
}
