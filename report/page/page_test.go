package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
)

// TestJobs: the page of every kind of job is whole, and sections without
// figures say why.
func TestJobs(t *testing.T) {
	rank := func(j synth.Job, change func(s *synth.Segment)) synth.Job {
		j.Mutate = func(_ int, s *synth.Segment) *synth.Segment { change(s); return s }
		return j
	}
	some, err := report.ParseRanges("1,3")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		job     synth.Job
		options report.Options
		want    []string
		not     []string
	}{
		{"all", uneven(4), report.Options{}, []string{`id="matrix-map"`, `id="raster-map"`, "Latest arrivals", "Sends by payload", "MPI_Allreduce: 40,000 calls"}, []string{"DIED"}},
		{"one rank", synth.Scale(1), report.Options{}, []string{"No point-to-point messages: the job has one rank.", "no collective operations were sampled", "of the time of its one rank"}, []string{`id="matrix-map"`, `id="raster-map"`}},
		{"nothing sampled", synth.Job{ID: "plain", Ranks: 4}, report.Options{}, []string{"MPITRACE_ARRIVAL=0", "MPITRACE_REUSE=0", "known from a trace only: mpitrace run --trace", "no requests were started"}, []string{`id="raster-map"`}},
		{"no messages", rank(synth.Job{ID: "none", Ranks: 4}, func(s *synth.Segment) { s.Peers, s.Functions = nil, nil }), report.Options{}, []string{"No point-to-point messages were sent.", "No messages with a payload were counted.", "No calls were timed."}, nil},
		{"no calls", rank(synth.Job{ID: "silent", Ranks: 2}, func(s *synth.Segment) { s.Sites, s.Functions, s.Peers = nil, nil, nil }), report.Options{}, []string{"No call of MPI has been counted yet", "no calls were counted"}, nil},
		{"killed", killed(), report.Options{}, []string{`<p class="alarm">DIED: ranks 0-3 ended without MPI_Finalize`, "rank 1, missing in MPI_Allreduce", "Calls in progress"}, nil},
		{"a part", uneven(8), report.Options{Ranks: some}, []string{"Only what the ranks chosen with --rank sent.", `"from":{"first":1,"ranks":3,"group":1}`}, []string{"no data of rank"}},
		{"many ranks", uneven(1030), report.Options{}, []string{"A cell holds the messages from 3 neighbouring ranks to 3 neighbouring ranks.", "A row of several ranks shows the latest of them.", "The 32 ranks with the most and the 32 with the least time in MPI", "966 more rows are not in this page"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := text(t, load(t, test.job, test.options))
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in the page", want)
				}
			}
			for _, not := range test.not {
				if strings.Contains(got, not) {
					t.Errorf("%q is in the page", not)
				}
			}
			for _, id := range sections {
				if !strings.Contains(got, `<section id="`+id+`"`) || !strings.Contains(got, `href="#`+id+`"`) {
					t.Errorf("no section %s", id)
				}
			}
			body, _, _ := strings.Cut(got[strings.Index(got, "<body>"):], "<script")
			for _, broken := range []string{"ZgotmplZ", "NaN", "Inf", "%!", ": .", "..<"} {
				if strings.Contains(body, broken) {
					t.Errorf("%q is in the page", broken)
				}
			}
			if !strings.HasSuffix(got, "</html>\n") {
				t.Error("the page has no end")
			}
		})
	}
}

// TestWithoutNeeds: a report that was loaded for text says what is missing.
func TestWithoutNeeds(t *testing.T) {
	dir := t.TempDir()
	if err := uneven(4).Write(dir); err != nil {
		t.Fatal(err)
	}
	r, err := report.Load(dir, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, r)
	for _, want := range []string{"made without the messages between ranks", "made without the arrivals of single ranks"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// TestNothingFromElsewhere: the page names no other place to load from, and
// its policy holds for exactly its style and script.
func TestNothingFromElsewhere(t *testing.T) {
	got := text(t, load(t, uneven(4), report.Options{}))
	if m := regexp.MustCompile(`(?i)\b(src|href|action|poster)\s*=\s*"?[^#"d]|url\(|@import|https?://[^w]`).FindString(got); m != "" {
		t.Errorf("%q would load something", m)
	}
	for name, text := range map[string]string{"style": style, "script": script} {
		if !strings.Contains(got, "<"+name+">"+text+"</"+name+">") {
			t.Errorf("the %s is not in the page as it is hashed", name)
		}
		if !strings.Contains(policy(), name+"-src 'sha256-") || !strings.Contains(policy(), hash(text)) {
			t.Errorf("the policy does not have the %s: %s", name, policy())
		}
	}
	if strings.Contains(got, " style=") || strings.Contains(got, " onclick") {
		t.Error("a style or handler in an attribute: the policy forbids it")
	}
}

// TestHostileText: texts of the job are in the page only where they are data.
func TestHostileText(t *testing.T) {
	got := text(t, load(t, hostile(), report.Options{}))
	if strings.Contains(got, "<script>pwned") || strings.Contains(got, "<img") {
		t.Error("a text of the job is markup")
	}
	if strings.Count(got, "</script>") != 2 {
		t.Errorf("%d ends of scripts, want 2", strings.Count(got, "</script>"))
	}
}

// TestLargestPage: with every cell of the largest maps filled, the page stays
// below its limit.
func TestLargestPage(t *testing.T) {
	j := uneven(512)
	j.ExtraSites, j.RanksPerNode = 600, 512
	r := load(t, j, report.Options{})
	r.Resolve()
	for _, s := range r.Sites {
		s.Symbol = strings.Repeat("std::vector<", 500)
	}
	r.Findings = slices.Repeat([]string{strings.Repeat("A long finding. ", 30)}, 40)
	r.Problems = slices.Repeat([]string{"node.mtn: not a node file"}, 10_000)
	m := r.Matrices[0]
	for i := range m.Messages {
		m.Messages[i], m.Bytes[i] = uint64(i)*7+1, uint64(i)*1e5+13
	}
	for len(r.Rasters) < rasters {
		r.Rasters = append(r.Rasters, r.Rasters[0])
	}
	if cells := len(r.Rasters[0].LatenessNS); cells != 512*160 || len(m.Messages) != 512*512 {
		t.Fatalf("%d and %d cells are not the largest maps", cells, len(m.Messages))
	}
	got := len(text(t, r))
	t.Logf("the largest page has %d bytes", got)
	if got > pageLimit {
		t.Errorf("the page has %d bytes, at most %d are expected", got, pageLimit)
	}
}

// TestMatrixData reads the cells back.
func TestMatrixData(t *testing.T) {
	m := &report.Matrix{From: report.Axis{Ranks: 2, Group: 1}, To: report.Axis{Ranks: 3, Group: 1},
		Messages: []uint64{0, 1, 0, 2, 0, 16_777_215}, Bytes: []uint64{0, 0, 0, 9999, 0, 1 << 40}}
	d := newMatrixData(m)
	if d.Cells != packed([]byte{1<<1 | 1<<3 | 1<<5}) || d.Messages != packed([]float32{1, 2, 16_777_215}) || d.Bytes != packed([]float32{0, 9999, 1 << 40}) {
		t.Errorf("%+v", d)
	}
	if got := packed([]uint16{0x0102}); got != "AgE=" {
		t.Errorf("%q is not little-endian", got)
	}
}

// TestRasterCodes: codes ascend with lateness, and give it back to a thousandth.
func TestRasterCodes(t *testing.T) {
	d := rasterData{LowNS: 1e3, HighNS: 1e6}
	last := uint16(1)
	for ns := 1e3; ns <= 1e6; ns *= 1.01 {
		code := d.code(ns, true)
		back := d.LowNS * math.Pow(d.HighNS/d.LowNS, float64(code-2)/(codes-2))
		if code <= last || math.Abs(back-ns) > ns/1000 {
			t.Errorf("%g ns is code %d, which is %g ns", ns, code, back)
		}
		last = code
	}
	for _, test := range []struct {
		ns   float64
		late bool
		want uint16
	}{{-1, false, 0}, {0, false, 1}, {900, false, 1}, {1, true, 2}, {1e6, true, codes}, {1e9, true, codes}} {
		if got := d.code(test.ns, test.late); got != test.want {
			t.Errorf("%g ns, late %v: code %d, want %d", test.ns, test.late, got, test.want)
		}
	}
}

// TestFilled puts empty bins between those that have a count.
func TestFilled(t *testing.T) {
	got := filled([]report.Bin{{From: 0, To: 1, Count: 3}, {From: 4, To: 8, Count: 1}, {From: 1 << 62, To: 0, Count: 1}})
	if len(got) != 64 || got[1] != (report.Bin{From: 1, To: 2}) || got[3].Count != 1 || got[63].To != 0 {
		t.Errorf("%d bins: %v", len(got), got)
	}
}

// TestLineStep gives two to five lines at round figures.
func TestLineStep(t *testing.T) {
	for _, top := range []float64{1, 2, 3, 9, 10, 251, 999, 1000, 4.1e7, 1e15} {
		step := lineStep(top)
		if lines := math.Floor(top / step); lines < 2 || lines > 5 {
			t.Errorf("%g lines of %g up to %g", lines, step, top)
		}
	}
}

// TestRamps: the colours of the maps go from the colour of the page in equal
// steps of lightness (L of OKLab), which is what remains without colour.
func TestRamps(t *testing.T) {
	ramps := regexp.MustCompile(`--ramp:([^;]+);`).FindAllStringSubmatch(style, -1)
	if len(ramps) != 2 {
		t.Fatalf("%d ramps, want one for each scheme", len(ramps))
	}
	for i, ramp := range ramps {
		stops := strings.Fields(ramp[1])
		all := lightness(t, stops[len(stops)-1]) - lightness(t, stops[0])
		if (all > 0) != (i == 1) || math.Abs(all) < 0.5 {
			t.Errorf("ramp %d changes lightness by %g", i, all)
		}
		for k := 1; k < len(stops); k++ {
			step := lightness(t, stops[k]) - lightness(t, stops[k-1])
			if want := all / float64(len(stops)-1); math.Abs(step-want) > math.Abs(want)/10 {
				t.Errorf("ramp %d: a step of %g between %s and %s, want %g", i, step, stops[k-1], stops[k], want)
			}
		}
	}
}

// lightness is L of OKLab (Ottosson 2020).
func lightness(t *testing.T, color string) float64 {
	t.Helper()
	var rgb [3]float64
	for i := range rgb {
		v, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if rgb[i] = float64(v) / 255; rgb[i] <= 0.04045 {
			rgb[i] /= 12.92
		} else {
			rgb[i] = math.Pow((rgb[i]+0.055)/1.055, 2.4)
		}
	}
	l := math.Cbrt(0.4122214708*rgb[0] + 0.5363325363*rgb[1] + 0.0514459929*rgb[2])
	m := math.Cbrt(0.2119034982*rgb[0] + 0.6806995451*rgb[1] + 0.1073969566*rgb[2])
	s := math.Cbrt(0.0883024619*rgb[0] + 0.2817188376*rgb[1] + 0.6299787005*rgb[2])
	return 0.2104542553*l + 0.7936177850*m - 0.0040720468*s
}

// TestWriteFile: files are replaced only if asked for, and appear whole.
func TestWriteFile(t *testing.T) {
	r := load(t, synth.Job{ID: "f", Ranks: 2}, report.Options{})
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	size, err := WriteFile(path, false, r, Options{})
	if info, statErr := os.Stat(path); err != nil || statErr != nil || info.Size() != size || info.Mode().Perm()&0o111 != 0 {
		t.Fatalf("%d bytes, %v, %v", size, err, statErr)
	}
	if _, err := WriteFile(path, false, r, Options{}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a file is replaced without being asked: %v", err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteFile(path, true, r, Options{}); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(data, []byte("<!DOCTYPE html>")) {
		t.Errorf("the file was not replaced: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "is not a file", link: "is not a file", filepath.Join(dir, "none", "a.html"): "does not exist: make it"} {
		if _, err := WriteFile(path, true, r, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	entries, err := os.ReadDir(dir)
	if names := []string{"link", "report.html"}; err != nil || len(entries) != 2 || !slices.Equal(names, []string{entries[0].Name(), entries[1].Name()}) {
		t.Errorf("left behind: %v", entries)
	}
}

// TestPublish: who was quicker keeps the name.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, path := range []string{a, b} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(a, b); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that came into being meanwhile: %v", err)
	}
	if err := publish(a, filepath.Join(dir, "c")); err != nil {
		t.Error(err)
	}
}

// FuzzHostile: whatever a job is called, the page has two scripts and data
// that is JSON.
func FuzzHostile(f *testing.F) {
	f.Add(attack)
	f.Add("plain\x00\x1b]0;\u2028\ufeff")
	f.Fuzz(func(t *testing.T, name string) {
		j := synth.Job{ID: "fuzz", Ranks: 2, RanksPerNode: 2, Sampled: true, Mutate: func(_ int, s *synth.Segment) *synth.Segment {
			for _, field := range [][]byte{s.Header.Command[:], s.Header.MPIVersion[:], s.Comms[3].Name[:], s.Types[1].Name[:], s.Modules[0].Path[:]} {
				synth.SetText(field, name)
			}
			return s
		}}
		got := text(t, load(t, j, report.Options{}))
		_, rest, found := strings.Cut(got, `<script type="application/json" id="data">`)
		data, rest, ended := strings.Cut(rest, "</script>")
		if !found || !ended || !json.Valid([]byte(data)) || strings.Count(rest, "<script>") != 1 || strings.Count(got, "<script") != 2 {
			t.Errorf("%q breaks the page", name)
		}
	})
}
