package microbench

import (
	"fmt"
	"strings"
	"testing"
)

func named(t testing.TB, name string) *Benchmark {
	t.Helper()
	chosen, err := Choose([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}

func TestParse(t *testing.T) {
	text := "a library greets\r\n" +
		"note of interest\r\n" +
		"result bandwidth size=1024 mode=uni mb_s=12.5 window=64\n" +
		"result bandwidth mode=both-way size=1024 mb_s=1e3\n" +
		"done verified=17\n" +
		"results follow elsewhere\n"
	out, err := named(t, "bandwidth").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if out.Verified != 17 || len(out.Points) != 2 || len(out.Notes) != 1 || out.Notes[0] != "of interest" {
		t.Fatalf("%+v", out)
	}
	first, second := out.Points[0], out.Points[1]
	if first.id() != "mode=uni size=1024" {
		t.Errorf("dimensions %q are not in the order of the benchmark", first.id())
	}
	if first.Values["mb_s"] != 12.5 || first.Values["window"] != 64 || second.Values["mb_s"] != 1000 {
		t.Errorf("%v, %v", first.Values, second.Values)
	}
}

func TestParseRefuses(t *testing.T) {
	const good, end = "result latency size=8 half_rtt_us=1\n", "done verified=1\n"
	cases := map[string]string{
		"no last line":         good,
		"nothing":              "",
		"no result":            end,
		"two ends":             good + end + end,
		"nothing verified":     good + "done verified=0\n",
		"a broken end":         good + "done verified=-1\n",
		"an end without count": good + "done\n",
		"another benchmark":    "result reuse size=8 half_rtt_us=1\n" + end,
		"no name":              "result\n" + end,
		"no metric":            "result latency size=8 best_us=1\n" + end,
		"a word":               "result latency size=8 half_rtt_us=fast\n" + end,
		"not a number":         "result latency size=8 half_rtt_us=nan\n" + end,
		"infinity":             "result latency size=8 half_rtt_us=inf\n" + end,
		"no value":             "result latency size= half_rtt_us=1\n" + end,
		"no key":               "result latency =8 half_rtt_us=1\n" + end,
		"no equals sign":       "result latency size half_rtt_us=1\n" + end,
		"a key twice":          "result latency size=8 half_rtt_us=1 half_rtt_us=2\n" + end,
		"a dimension twice":    "result latency size=8 size=9 half_rtt_us=1\n" + end,
		"a point twice":        good + good + end,
		"two lines mixed":      "result latency size=8 half_result latency size=9 half_rtt_us=1\n" + end,
	}
	for what, text := range cases {
		if out, err := named(t, "latency").Parse(text); err == nil {
			t.Errorf("%s was taken: %+v", what, out)
		}
	}
}

// TestParseRefusal: without any result a note must say why, as registration
// does where mlock is refused.
func TestParseRefusal(t *testing.T) {
	out, err := named(t, "registration").Parse("note mlock refused\ndone verified=0\n")
	if err != nil || len(out.Notes) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

// render writes an output as a program would.
func render(b *Benchmark, out Output) string {
	var text strings.Builder
	for _, note := range out.Notes {
		text.WriteString("note " + note + "\n")
	}
	for _, p := range out.Points {
		text.WriteString("result " + b.Name + " " + p.id())
		for key, value := range p.Values {
			text.WriteString(" " + key + "=" + exact(value))
		}
		text.WriteString("\n")
	}
	return text.String() + fmt.Sprintf("done verified=%d\n", out.Verified)
}
