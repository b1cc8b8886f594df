package synth

import (
	"testing"

	"github.com/mpitrace/mpitrace/segment"
)

// TestScaleSize keeps the scale job at the size that it stands for.
func TestScaleSize(t *testing.T) {
	s, err := segment.Parse("scale", Scale(4096).Segment(2000).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if used := s.UsedBytes(); used < 62<<10 || used > 66<<10 {
		t.Errorf("a rank of the scale job uses %d bytes, should be about 64 KiB", used)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings: %q", s.Warnings)
	}
}
