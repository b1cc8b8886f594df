package knobs

import (
	"os"
	"path/filepath"
	"testing"
)

// knob finds a setting of the spec.
func knob(t *testing.T, name string) Knob {
	t.Helper()
	for _, k := range All {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no setting %s", name)
	return Knob{}
}

func TestParseSize(t *testing.T) {
	good := map[string]int64{"1": 1, "4096": 4096, "256K": 256 << 10, "256k": 256 << 10, "4M": 4 << 20, "2g": 2 << 30, "8589934591G": 8589934591 << 30}
	for text, want := range good {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "K", "1T", "1KB", "1.5M", " 1", "8589934592G", "99999999999999999999"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestCheck(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct{ name, text, want, err string }{
		{"mode", "off", "off", ""},
		{"mode", "on", "", `"on" is not one of off, observe, advise, act`},
		{"quiet", "true", "1", ""},
		{"quiet", "no", "0", ""},
		{"quiet", "2", "", `"2" is neither 1 nor 0`},
		{"stack", "16", "16", ""},
		{"stack", "17", "", `"17" is not a whole number from 0 to 16`},
		{"stack", "-1", "", `"-1" is not a whole number from 0 to 16`},
		{"segment_bytes", "1M", "1048576", ""},
		{"segment_bytes", "1X", "", `"1X" is not a size: give bytes, or a number with K, M or G (256K)`},
		{"output", "x", filepath.Join(here, "x"), ""},
		{"output", "", "", "the path is empty"},
		{"skip", "libpetsc,libHYPRE", "libpetsc,libHYPRE", ""},
		{"skip", "a\nb", "", `"a\nb" has a line break in it`},
	}
	for _, c := range cases {
		got, err := knob(t, c.name).Check(c.text)
		if got != c.want && c.err == "" || c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
			t.Errorf("%s=%q: %q, %v, want %q, %s", c.name, c.text, got, err, c.want, c.err)
		}
	}
}

// TestDefaults proves that the defaults of the spec pass their own checks.
func TestDefaults(t *testing.T) {
	for _, k := range All {
		if k.Default == "" {
			continue
		}
		if _, err := k.Check(k.Default); err != nil {
			t.Errorf("%s: default: %v", k.Name, err)
		}
	}
}

func TestValue(t *testing.T) {
	v := &Value{Knob: knob(t, "stack")}
	if v.String() != "0" {
		t.Errorf("unset: %q, want the default", v)
	}
	if v.Set("99") == nil || v.String() != "0" {
		t.Errorf("a refused value was kept: %q", v)
	}
	if err := v.Set("3"); err != nil || v.String() != "3" {
		t.Errorf("set: %q, %v", v, err)
	}
}
