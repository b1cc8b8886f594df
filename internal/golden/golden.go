// Package golden compares what a test got with a file in its testdata. It is
// for tests only.
package golden

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// Update says that expected files are to be written anew: go test -update.
var Update = flag.Bool("update", false, "write the golden files anew")

// Compare requires got to be what testdata/name holds.
func Compare(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *Update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, got, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update, in its folder, makes it", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; after a deliberate change run go test -update in its folder.\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}
