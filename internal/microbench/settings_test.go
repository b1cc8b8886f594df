package microbench

import (
	"strings"
	"testing"
)

func flagNamed(t *testing.T, name string) Flag {
	t.Helper()
	for _, f := range Flags {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no flag %s", name)
	return Flag{}
}

func TestNormal(t *testing.T) {
	for _, c := range []struct{ flag, text, want string }{
		{"sizes", "8,1K, 64K,1M", "8,1024,65536,1048576"},
		{"sizes", "1024M", "1073741824"},
		{"pool", "64M", "67108864"},
		{"iterations", "010", "10"},
		{"mif", "1,32,0.5,1e3", "1,32,0.5,1000"},
		{"ops", "alltoall,allreduce", "alltoall,allreduce"},
		{"law", "random", "random"},
	} {
		if got, err := flagNamed(t, c.flag).Normal(c.text); err != nil || got != c.want {
			t.Errorf("--%s %s: %q, %v, want %q", c.flag, c.text, got, err, c.want)
		}
	}
	for _, c := range []struct{ flag, text string }{
		{"sizes", ""}, {"sizes", "0"}, {"sizes", "-1"}, {"sizes", "1G"}, {"sizes", "2048M"}, {"sizes", "8,"}, {"sizes", "K"},
		{"sizes", strings.Repeat("8,", 32) + "8"}, {"pool", "1M,2M"},
		{"iterations", "1.5"}, {"iterations", "10,20"}, {"iterations", "-3"}, {"iterations", "99999999999999999999"},
		{"mif", "x"}, {"mif", "-1"}, {"mif", "nan"}, {"mif", "inf"}, {"mif", "1 2"},
		{"ops", "reduce"}, {"law", "fixed,random"}, {"law", ""},
	} {
		if got, err := flagNamed(t, c.flag).Normal(c.text); err == nil {
			t.Errorf("--%s %q was taken as %q", c.flag, c.text, got)
		}
	}
}

func TestCheckTaken(t *testing.T) {
	chosen := map[string]string{"mif": "1"}
	if err := checkTaken(chosen, []*Benchmark{named(t, "latency")}); err == nil || !strings.Contains(err.Error(), "--mif") {
		t.Errorf("latency has no --mif, but: %v", err)
	}
	if err := checkTaken(chosen, Suite); err != nil {
		t.Error(err)
	}
}
