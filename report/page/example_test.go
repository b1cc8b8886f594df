package page_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/report/page"
)

// A page of a result, here of a synthetic one.
func ExampleWrite() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	result := filepath.Join(dir, "mpitrace-4711")
	if err := (synth.Job{ID: "4711", Ranks: 4}).Write(result); err != nil {
		panic(err)
	}

	r, err := report.Load(result, page.Needs(report.Options{}))
	if err != nil {
		panic(err)
	}
	var out bytes.Buffer
	if err := page.Write(&out, r, page.Options{}); err != nil {
		panic(err)
	}
	fmt.Println(string(out.Bytes()[:15]), bytes.Contains(out.Bytes(), []byte(`<h2 id="findings-head">Findings</h2>`)))
	// Output: <!DOCTYPE html> true
}
