package symbols

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzLookup looks addresses up in whatever the fuzzer makes of a program with
// debug information.
func FuzzLookup(f *testing.F) {
	dir := f.TempDir()
	source, object := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.o")
	if err := os.WriteFile(source, []byte("static inline int g(int a) { return a * a; }\nint f(int a) { return g(a) + 1; }\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	run(f, "gcc", "-g", "-O2", "-shared", "-nostdlib", "-Wl,--build-id", "-o", object, source)
	data, err := os.ReadFile(object)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, uint64(0x1004))
	f.Fuzz(func(t *testing.T, data []byte, offset uint64) {
		path := filepath.Join(t.TempDir(), "a.so")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := New(Options{DebugDirs: []string{}})
		if place := r.Lookup(path, "", offset); place.Line == 0 && place.Function == "" && place.Note == "" {
			t.Errorf("nothing is known of %#x and no reason is given", offset)
		}
	})
}
