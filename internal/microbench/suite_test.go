package microbench

import (
	"slices"
	"strings"
	"testing"
)

func source(t *testing.T, program string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range sourceFiles(program) {
		file, err := sources.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(file)
	}
	return text.String()
}

// TestSuiteAndPrograms: the table in Go and the programs in C name the same
// arguments and keys.
func TestSuiteAndPrograms(t *testing.T) {
	taken := map[string]bool{}
	for _, b := range Suite {
		text := source(t, b.Program)
		for _, s := range b.Takes {
			taken[s.Name] = true
			if !strings.Contains(text, `"`+s.Name+`"`) {
				t.Errorf("%s.c does not read --%s", b.Program, s.Name)
			}
			for _, value := range []string{s.Full, s.Quick} {
				normal, err := flagNamed(t, s.Name).Normal(value)
				if value != "" && (err != nil || normal != value) {
					t.Errorf("%s: default --%s %s is %q, %v in its normal form", b.Name, s.Name, value, normal, err)
				}
			}
		}
		keys := slices.Clone(b.Dims)
		for _, m := range slices.Concat(b.Metrics, b.Context) {
			keys = append(keys, m.Key)
		}
		for _, key := range keys {
			if !strings.Contains(text, key+"=") {
				t.Errorf("%s.c prints no %s", b.Program, key)
			}
		}
		if b.Source == "" || b.What == "" || b.Ranks < 1 || len(b.Metrics) == 0 {
			t.Errorf("%s is incomplete: %+v", b.Name, b)
		}
	}
	for _, f := range Flags {
		if !taken[f.Name] {
			t.Errorf("--%s: no benchmark has it", f.Name)
		}
	}
}

func TestChoose(t *testing.T) {
	if all, err := Choose([]string{All, "latency"}); err != nil || len(all) != len(Suite) {
		t.Errorf("%d of %d, %v", len(all), len(Suite), err)
	}
	two, err := Choose([]string{"reuse", "latency"})
	if err != nil || len(two) != 2 || two[0].Name != "latency" {
		t.Errorf("%v, %v, want latency and reuse", two, err)
	}
	if _, err := Choose([]string{"latancy"}); err == nil {
		t.Error("a misspelt name was taken")
	}
}

func TestArguments(t *testing.T) {
	args := strings.Join(named(t, "overlap-recv").arguments(true, 2, map[string]string{"sizes": "64", "mif": "1"}), " ")
	want := "--mode recv --ranks 2 --sizes 64 --iterations 20 --warmup 8 --limit-ms 10 --factors 1,4 --methods sweep,eq3.4 --peer wait --first together --compute wall"
	if args != want {
		t.Errorf("%s\nwant %s", args, want)
	}
}

// TestPublished: every figure has a source and belongs to a benchmark, and
// one that is to stand beside a row does so in a full run.
func TestPublished(t *testing.T) {
	for _, p := range published {
		b := named(t, p.benchmark)
		metrics := slices.Concat(b.Metrics, b.Context)
		if !slices.ContainsFunc(metrics, func(m Metric) bool { return m.Key == p.metric }) {
			t.Errorf("%s has no %s: %s", b.Name, p.metric, p.Text)
		}
		if p.Source == "" || p.Text == "" || len(p.Figures) == 0 {
			t.Errorf("%s: no text, figure or source: %+v", b.Name, p)
		}
		for _, d := range p.dims {
			if !slices.Contains(b.Dims, d.Key) {
				t.Errorf("%s has no %s: %s", b.Name, d.Key, p.Text)
			}
			if d.Key == "size" && !slices.Contains(sizesOf(b), d.Value) {
				t.Errorf("%s is not run with size %s: %s", b.Name, d.Value, p.Text)
			}
		}
	}
}

func sizesOf(b *Benchmark) []string {
	for _, s := range b.Takes {
		if s.Name == "sizes" {
			return strings.Split(s.Full, ",")
		}
	}
	return nil
}

func TestMatching(t *testing.T) {
	list := []Published{
		{metric: "m", dims: at("size", "8")}, {metric: "m", dims: nil},
		{metric: "m", dims: at("size", "8", "op", "put")}, {metric: "n", dims: at("size", "8")},
	}
	if got := matching(list, "m", at("op", "put", "size", "8")); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("%v, want 0 and 2", got)
	}
	if got := matching(list, "m", at("size", "16")); len(got) != 0 {
		t.Errorf("%v, want none", got)
	}
}
