package segment_test

import (
	"fmt"
	"testing"

	"github.com/mpitrace/mpitrace/segment"
)

// TestByJob: segments stay in their order, and jobs of one name in two places
// stay apart.
func TestByJob(t *testing.T) {
	var found []segment.Found
	for _, path := range []string{"/a/j/1.seg", "/a/k/2.seg", "/a/j/3.seg", "/b/j/4.seg"} {
		found = append(found, segment.Found{Path: path, Job: path[3:4]})
	}
	got := ""
	for _, j := range segment.ByJob(found) {
		got += fmt.Sprintf("%s %s:", j.Path, j.Name)
		for _, f := range j.Segments {
			got += " " + f.Path[5:6]
		}
		got += "; "
	}
	if want := "/a/j j: 1 3; /a/k k: 2; /b/j j: 4; "; got != want {
		t.Errorf("%s instead of %s", got, want)
	}
}
