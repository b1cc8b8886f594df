package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{"1.20.3\n": "", "": "three numbers", "1.2": "three numbers", "v1.2.3": "three numbers", "1.2.3-rc1": "three numbers"} {
		path := filepath.Join(t.TempDir(), "VERSION")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out := output{}
		err := emitVersion(path, out)
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want an error about %s", text, err, want)
			}
		case err != nil || !strings.Contains(string(out["c/include/version.gen.h"]), `"1.20.3"`) || !strings.Contains(string(out["internal/version/version_gen.go"]), `"1.20.3"`):
			t.Errorf("%q: %v, %s", text, err, out)
		}
	}
}

// TestChangelog: what VERSION names has a section in the change log.
func TestChangelog(t *testing.T) {
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if heading := "\n## [" + strings.TrimSpace(string(version)) + "] - "; !strings.Contains(string(log), heading) {
		t.Errorf("CHANGELOG.md has no heading %q", heading)
	}
}
