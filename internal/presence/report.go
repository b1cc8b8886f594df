package presence

import (
	"fmt"
	"strconv"
	"strings"
)

// maxLine is the longest line of a rank, with its line break.
const maxLine = 4096

// maxRanks bounds the size of a world; a larger one is a mistake.
const maxRanks = 1 << 24

// Report is what a rank tells of itself.
type Report struct {
	Secret   string
	World    string // the MPI_COMM_WORLD, by the launcher's name for it
	Size     int
	Rank     int
	Host     string
	PID      int
	Shim     string // version and build id of libmpishim.so
	Runtime  string // build id of libmpishim-rt.so
	Protocol string // of the messages
	Policy   string // hash
	Refused  string // why this rank cannot act, empty if it can
}

// field is one name of a line and where its value goes.
type field struct {
	name   string
	text   *string
	number *int
}

func (r *Report) fields() []field {
	return []field{
		{"secret", &r.Secret, nil},
		{"world", &r.World, nil},
		{"size", nil, &r.Size},
		{"rank", nil, &r.Rank},
		{"host", &r.Host, nil},
		{"pid", nil, &r.PID},
		{"shim", &r.Shim, nil},
		{"runtime", &r.Runtime, nil},
		{"protocol", &r.Protocol, nil},
		{"policy", &r.Policy, nil},
		{"refused", &r.Refused, nil},
	}
}

// String is the line, without its break.
func (r Report) String() string {
	words := []string{"report"}
	for _, f := range r.fields() {
		if f.text != nil {
			words = append(words, f.name+"="+*f.text)
		} else {
			words = append(words, f.name+"="+strconv.Itoa(*f.number))
		}
	}
	return strings.Join(words, "\t")
}

// ParseReport reads a line: every field, in the order of Report.
func ParseReport(line string) (Report, error) {
	var r Report
	words := strings.Split(line, "\t")
	fields := r.fields()
	if len(words) != len(fields)+1 || words[0] != "report" {
		return Report{}, fmt.Errorf("not a report of %d fields", len(fields))
	}
	for i, f := range fields {
		value, ok := strings.CutPrefix(words[i+1], f.name+"=")
		if !ok {
			return Report{}, fmt.Errorf("field %d is not %s", i+1, f.name)
		}
		if err := f.set(value); err != nil {
			return Report{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if r.World == "" || r.Size < 1 || r.Size > maxRanks || r.Rank >= r.Size {
		return Report{}, fmt.Errorf("rank %d of %d in world %q", r.Rank, r.Size, r.World)
	}
	return r, nil
}

func (f field) set(value string) error {
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\ufffd' }) {
		return fmt.Errorf("%q is not plain text", value)
	}
	if f.text != nil {
		*f.text = value
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != value {
		return fmt.Errorf("%q is not a number", value)
	}
	*f.number = int(n)
	return nil
}

// who names the rank for people.
func (r Report) who() string { return fmt.Sprintf("rank %d on %s", r.Rank, r.Host) }

// differs says what two ranks of a world do not have in common, "" if nothing.
func (r Report) differs(other Report) string {
	for _, f := range []struct{ what, a, b string }{
		{"MPI_COMM_WORLD has size", strconv.Itoa(r.Size), strconv.Itoa(other.Size)},
		{"libmpishim.so is", r.Shim, other.Shim},
		{"libmpishim-rt.so is", r.Runtime, other.Runtime},
		{"the protocol is", r.Protocol, other.Protocol},
		{"the policy is", r.Policy, other.Policy},
	} {
		if f.a != f.b {
			return fmt.Sprintf("%s %s for %s, and %s for %s", f.what, f.a, r.who(), f.b, other.who())
		}
	}
	return ""
}
