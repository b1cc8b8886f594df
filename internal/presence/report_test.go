package presence

import (
	"strings"
	"testing"
)

// sample is a report of a rank of four.
func sample(rank int) Report {
	return Report{
		Secret: "s3cret", World: "job.1", Size: 4, Rank: rank, Host: "node" + string(rune('a'+rank)), PID: 100 + rank,
		Shim: "0.1.0 aa", Runtime: "bb", Protocol: "1", Policy: "cc",
	}
}

func TestReportRoundTrip(t *testing.T) {
	want := sample(3)
	want.Refused = "no room: raise ulimit -v"
	got, err := ParseReport(want.String())
	if err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
}

func TestReportRefused(t *testing.T) {
	good := sample(3).String()
	for name, line := range map[string]string{
		"empty":            "",
		"another protocol": "GET / HTTP/1.1\r",
		"field missing":    strings.Replace(good, "\thost=noded", "", 1),
		"field twice":      good + "\thost=noded",
		"other order":      strings.Replace(good, "size=4\trank=3", "rank=3\tsize=4", 1),
		"no number":        strings.Replace(good, "rank=3", "rank=three", 1),
		"negative":         strings.Replace(good, "rank=3", "rank=-1", 1),
		"leading zero":     strings.Replace(good, "rank=3", "rank=03", 1),
		"too large":        strings.Replace(good, "pid=103", "pid=99999999999", 1),
		"no such rank":     strings.Replace(good, "rank=3", "rank=4", 1),
		"size 0":           strings.Replace(good, "size=4", "size=0", 1),
		"huge world":       strings.Replace(good, "size=4", "size=16777217", 1),
		"nameless world":   strings.Replace(good, "world=job.1", "world=", 1),
		"control":          strings.Replace(good, "host=noded", "host=node\x1b[31m", 1),
		"not UTF-8":        strings.Replace(good, "host=noded", "host=\xff", 1),
	} {
		if r, err := ParseReport(line); err == nil {
			t.Errorf("%s is taken: %+v", name, r)
		}
	}
}

// FuzzReport: what is read is what would be written, and nothing in it can
// break a line or a terminal.
func FuzzReport(f *testing.F) {
	f.Add(sample(0).String())
	f.Add("report\tsecret=\tworld=w\tsize=1\trank=0\thost=\tpid=0\tshim=\truntime=\tprotocol=\tpolicy=\trefused=")
	f.Add("report\tsecret\tworld\tsize\trank\thost\tpid\tshim\truntime\tprotocol\tpolicy\trefused")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		r, err := ParseReport(line)
		if err != nil {
			if r != (Report{}) {
				t.Errorf("%q is refused and read: %+v", line, r)
			}
			return
		}
		if r.String() != line {
			t.Errorf("%q is read as %q", line, r)
		}
		if strings.ContainsAny(line, "\n\r\x1b\x00") || r.Rank >= r.Size || r.Size > maxRanks {
			t.Errorf("%q is taken", line)
		}
	})
}
